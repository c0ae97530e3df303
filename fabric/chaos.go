package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/model"
	"example.org/nfsrdma/nfsserver/vfs"
)

// ChaosReport is what a run of RunChaos did.
type ChaosReport struct {
	Seed        uint64
	Mode        nfsclient.RegMode
	Personality string // of the device
	Proto       nfsclient.Proto
	Live        bool
	Link        string // "direct" or its name
	Soft        bool   // the mount was soft
	Crashable   bool   // a crash of the server was among the faults
	Faults      []faults.Count
	Calls       int           // steps of the load
	Failed      int           // that ended with an error
	Bytes       int64         // read and compared
	Reconnects  int           // connections but the first of each mount
	Elapsed     time.Duration // of the fabric's time
	Fingerprint uint64        // of the trace: equal for the same seed; 0 if live
}

// Fired lists the faults that fired, without their counts and times, sorted.
func (r *ChaosReport) Fired() []string {
	var out []string
	for _, c := range r.Faults {
		if c.Fired > 0 {
			out = append(out, c.Fault.Name())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Combination names the faults that fired together.
func (r *ChaosReport) Combination() string { return strings.Join(r.Fired(), " + ") }

func (r *ChaosReport) String() string {
	how := fmt.Sprintf("%v on %s", r.Mode, r.Personality)
	if r.Proto == TCP {
		how = "tcp"
	}
	s := fmt.Sprintf("seed %d: %s over %s, %d calls, %d failed, %d bytes compared, %d reconnects, %v",
		r.Seed, how, r.Link, r.Calls, r.Failed, r.Bytes, r.Reconnects, r.Elapsed)
	for _, c := range r.Faults {
		s += fmt.Sprintf("\n\t%v: fired %d of %d", c.Fault, c.Fired, c.Seen)
	}
	return s
}

// Chaos is RunChaos as a test.
func Chaos(t TB, seed uint64) *ChaosReport {
	t.Helper()
	r, err := RunChaos(context.Background(), seed)
	if err != nil {
		t.Errorf("fabric: chaos: %v\n%v", err, r)
	}
	return r
}

// RunChaos mixes faults that the seed chooses, in virtual time, under a load of several tasks that write, commit, read,
// truncate, make, link, rename, remove and list files, directories and links, in the registration mode, on the kind of
// device, over the transport and link and with the knobs that the seed chooses. It fails if a byte that was read is not
// one that may be there, if after a last crash of the server something is lost or changed that was acknowledged stable,
// if a call gives an error that no fault explains, if anything hangs, or if anything is left when the fabric closes.
// What the report says of equal seeds is equal.
//
// What may be there follows from the replies alone. Data that was written stable, or unstable and committed with the same
// verifier, is there. Unstable data is there unless the server may have crashed; then it is old or new, byte by byte. A
// call that ended with a status had its effect or not, and one that was made again at a server that had crashed meanwhile
// may find its own work done. One that ended otherwise may have its effect later.
func RunChaos(ctx context.Context, seed uint64) (*ChaosReport, error) {
	return RunChaosWith(ctx, seed, ChaosOptions{})
}

// RunChaosWith is RunChaos with some of the seed's choices fixed.
func RunChaosWith(ctx context.Context, seed uint64, o ChaosOptions) (*ChaosReport, error) {
	plan, err := planChaos(seed, o)
	if err != nil {
		return &ChaosReport{Seed: seed}, err
	}
	return runChaos(ctx, seed, plan)
}

func runChaos(ctx context.Context, seed uint64, plan chaosPlan) (*ChaosReport, error) {
	p := &plan.params
	rep := &ChaosReport{Seed: seed, Mode: p.RegMode, Personality: p.Personality.Name, Proto: p.Proto, Live: p.Live, Link: "direct", Soft: plan.soft, Crashable: plan.crash}
	if l := p.Link; l != nil {
		rep.Link = l.Name
	}
	f, err := Start(*p)
	if err != nil {
		return rep, err
	}
	c := &chaos{f: f, plan: plan, rep: rep}
	err = c.run(ctx)
	if f.faults != nil {
		rep.Faults = f.faults.Counts()
	}
	if c.mounts > 0 {
		n, _ := f.Client().Counters().Get("connect_count")
		rep.Reconnects = max(int(n)-c.mounts, 0)
	}
	rep.Fingerprint, rep.Elapsed = f.Fingerprint(), f.Now()
	if cerr := f.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close: %w", cerr))
	}
	return rep, err
}

// chaos is a run.
type chaos struct {
	f    *Fabric
	plan chaosPlan
	ms   []*nfsclient.Mount
	rep  *ChaosReport

	mu    sync.Mutex
	errs  []error
	files uint64
	tasks []*chaosTask

	mounts int
}

func (c *chaos) violated(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) < 5 {
		c.errs = append(c.errs, err)
	}
}

func (c *chaos) violations() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}

// maxChaosDials bounds attempts to mount while faults fire.
const maxChaosDials = 50

func (c *chaos) run(ctx context.Context) error {
	f := c.f
	for range c.plan.mounts {
		m, err := f.Dial(ctx, "/")
		for i := 0; err != nil && i < maxChaosDials && !c.plan.remove && !sched.Ended(err); i++ {
			if err := f.Sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
			m, err = f.Dial(ctx, "/")
		}
		switch {
		case err != nil && c.plan.remove:
			return c.stop() // the device was gone before there was a mount
		case err != nil:
			return fmt.Errorf("mount: %w", err)
		}
		c.ms = append(c.ms, m.NFS())
	}
	c.mounts = len(c.ms)
	g := f.s.NewGroup("the tasks of chaos")
	for i := range c.plan.tasks {
		t := newChaosTask(c, i)
		c.tasks = append(c.tasks, t)
		g.Go(fmt.Sprintf("chaos %d", i), func() { t.run(ctx) })
	}
	if err := g.Wait(ctx); err != nil {
		return errors.Join(c.violations(), fmt.Errorf("hang: %w", err))
	}
	if err := c.stop(); err != nil {
		return errors.Join(c.violations(), err)
	}
	if !c.plan.remove {
		if err := c.readBack(ctx); err != nil {
			c.violated(err)
		}
	}
	c.audit(ctx)
	return c.violations()
}

func (c *chaos) stop() error {
	if c.f.faults == nil {
		return nil
	}
	if err := c.f.faults.Stop(sched.Cleanup); err != nil {
		return fmt.Errorf("faults: %w", err)
	}
	return nil
}

// readBack compares all files over the wire, now that nothing goes wrong any more.
func (c *chaos) readBack(ctx context.Context) error {
	m, err := c.f.Dial(ctx, "/", func(cfg *nfsclient.Config) { cfg.Soft = false })
	if err != nil {
		return fmt.Errorf("mount after the faults: %w", err)
	}
	c.mounts++
	for _, t := range c.tasks {
		for _, d := range t.data {
			b, err := m.NFS().ReadFile(ctx, t.dir+"/"+d.f.name)
			if err != nil {
				return fmt.Errorf("after the faults: %w", err)
			}
			c.rep.Bytes += int64(len(b))
			if err := d.f.checkAll(b, ever); err != nil {
				return fmt.Errorf("after the faults: %w", err)
			}
		}
	}
	return nil
}

// audit crashes the server for the last time, and compares the file system with what must be and may be there.
func (c *chaos) audit(ctx context.Context) {
	if err := c.f.NFSServer().Close(); err != nil {
		c.violated(fmt.Errorf("close of the server: %w", err))
	}
	c.f.fs.(model.Crasher).Crash()
	for _, t := range c.tasks {
		if err := t.audit(ctx, c.f.raw); err != nil {
			c.violated(fmt.Errorf("after the last crash: %w", err))
		}
	}
}

// readStored reads a whole file of the file system.
func readStored(ctx context.Context, fs vfs.FS, id vfs.ID) ([]byte, error) {
	var a vfs.Attr
	if err := fs.Attr(ctx, id, &a); err != nil {
		return nil, err
	}
	b := make([]byte, a.Size)
	n, _, err := fs.Read(ctx, id, 0, b, &a)
	return b[:n], err
}
