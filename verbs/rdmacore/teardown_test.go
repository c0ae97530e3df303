//go:build rdmacore && cgo

package rdmacore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

// end is one end of a connection, with all that belongs to it.
type end struct {
	pd       verbs.PD
	mr       verbs.MR
	scq, rcq verbs.CQ
	id       verbs.ID
	qp       verbs.QP
	events   atomic.Int64 // completions seen by the handlers
}

const (
	testDepth = 32
	testPiece = 8192
)

func (e *end) create(d verbs.Device) (err error) {
	drain := func(cq verbs.CQ) {
		var wc [8]verbs.WC
		for {
			n, err := cq.Poll(wc[:])
			e.events.Add(int64(n))
			if err != nil || n == 0 && !cq.Arm(false) {
				return
			}
		}
	}
	if e.pd, err = d.AllocPD(); err != nil {
		return err
	}
	if e.mr, err = e.pd.AllocMR(testDepth*testPiece, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead); err != nil {
		return err
	}
	for _, cq := range []*verbs.CQ{&e.scq, &e.rcq} {
		if *cq, err = d.CreateCQ(verbs.CQInit{Depth: 4 * testDepth, Handler: drain}); err != nil {
			return err
		}
		drain(*cq)
	}
	return nil
}

func (e *end) attach(id verbs.ID) (err error) {
	e.id = id
	e.qp, err = id.CreateQP(e.pd, verbs.QPInit{SendCQ: e.scq, RecvCQ: e.rcq, MaxSendWR: testDepth, MaxRecvWR: testDepth, Name: "test"})
	if err != nil {
		return err
	}
	for i := range testDepth {
		if _, err = e.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGEs: []verbs.SGE{{Addr: e.mr.Addr(), Length: 64, LKey: e.mr.LKey()}}}}); err != nil {
			return err
		}
	}
	return nil
}

// connectEnds makes a connection of the device with itself.
func connectEnds(ctx context.Context, d verbs.Device, l verbs.Listener, c, s *end) error {
	for _, e := range []*end{c, s} {
		if err := e.create(d); err != nil {
			return err
		}
	}
	accepted := make(chan error, 1)
	go func() {
		id, err := l.Accept(ctx)
		if err == nil {
			if err = s.attach(id); err == nil {
				err = s.id.Accept(ctx, verbs.ConnParam{IRD: 4, ORD: 4, RetryCnt: 7, RNRRetry: 7})
			}
		}
		accepted <- err
	}()
	id, err := d.Resolve(ctx, l.Addr())
	if err == nil {
		if err = c.attach(id); err == nil {
			_, err = c.id.Connect(ctx, verbs.ConnParam{IRD: 4, ORD: 4, RetryCnt: 7, RNRRetry: 7})
		}
	}
	return errors.Join(err, <-accepted)
}

// parts are the objects, those that need others first.
func (e *end) parts() []interface{ Close() error } {
	var out []interface{ Close() error }
	for _, p := range []interface{ Close() error }{e.qp, e.id, e.scq, e.rcq, e.mr, e.pd} {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

func (e *end) close() error {
	var errs []error
	for _, p := range e.parts() {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

func listenOn(t *testing.T, d verbs.Device) verbs.Listener {
	t.Helper()
	l, err := d.Listen(newAddr(d), 0)
	require.NoError(t, err)
	return l
}

// kernelObjects is what `rdma resource` counts for the device, "" where there is no such command.
func kernelObjects(t *testing.T, d verbs.Device) string {
	t.Helper()
	out, err := exec.Command("rdma", "resource", "show").Output()
	if err != nil {
		t.Logf("rdma resource: %v", err)
		return ""
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, " "+d.Name()+":") {
			return strings.Join(regexp.MustCompile(`[a-z_]+ \d+`).FindAllString(line, -1), " ")
		}
	}
	return ""
}

func TestConnectsLeakNothing(t *testing.T) {
	d := device(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var before string
	l := listenOn(t, d)
	for i := range 200 {
		if i == 1 { // librdmacm has made what it keeps
			before = kernelObjects(t, d)
		}
		var c, s end
		require.NoError(t, connectEnds(ctx, d, l, &c, &s), "connection %d", i)
		if i%2 == 0 {
			require.NoError(t, []*end{&c, &s}[i/2%2].id.Disconnect())
		}
		require.NoError(t, errors.Join(c.close(), s.close()))
	}
	require.Equal(t, before, kernelObjects(t, d), "objects of the kernel")
	require.NoError(t, l.Close())
	require.Equal(t, verbs.Resources{}, d.Resources())
	t.Logf("kernel objects: %s", before)
}

// TestTeardownAtAnyMoment closes the objects of a busy connection in random order from several goroutines, while others
// post: a Close may say ErrBusy and is tried again, a post may fail, and at the end nothing is left.
func TestTeardownAtAnyMoment(t *testing.T) {
	d := device(t)
	l := listenOn(t, d)
	for seed := range uint64(40) {
		teardown(t, d, l, rand.New(rand.NewPCG(seed, 1)))
		require.Equal(t, verbs.Resources{CMID: 1}, d.Resources(), "seed %d", seed)
	}
	require.NoError(t, l.Close())
}

func teardown(t *testing.T, d verbs.Device, l verbs.Listener, r *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var c, s end
	require.NoError(t, connectEnds(ctx, d, l, &c, &s))
	var wg sync.WaitGroup
	target := c.events.Load() + int64(r.IntN(200)) // how much is done before
	reached := make(chan struct{})
	var once sync.Once
	for _, e := range [][2]*end{{&c, &s}, {&s, &c}} {
		seed := r.Uint64()
		wg.Go(func() {
			defer once.Do(func() { close(reached) })
			post(e[0], e[1], rand.New(rand.NewPCG(seed, 2)), func() {
				if c.events.Load() >= target {
					once.Do(func() { close(reached) })
				}
			})
		})
	}
	select {
	case <-reached:
	case <-ctx.Done():
		t.Errorf("no traffic")
	}
	if r.IntN(2) == 0 {
		_ = c.id.Disconnect()
	}
	all := append(c.parts(), s.parts()...)
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, p := range all {
		wg.Go(func() {
			for {
				err := p.Close()
				if err == nil {
					return
				}
				if !errors.Is(err, verbs.ErrBusy) || ctx.Err() != nil {
					t.Errorf("closing %T: %v", p, err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// post posts until the queue pair takes no more.
func post(from, to *end, r *rand.Rand, progress func()) {
	for i := uint64(0); ; i++ {
		wr := verbs.SendWR{ID: i, Op: []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead}[r.IntN(3)], Flags: verbs.Signaled,
			RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey(),
			SGEs: []verbs.SGE{{Addr: from.mr.Addr(), Length: uint32(1 + r.IntN(testPiece)), LKey: from.mr.LKey()}}}
		if wr.Op == verbs.OpSend {
			wr.SGEs[0].Length = 8
		}
		_, err := from.qp.PostSend([]verbs.SendWR{wr})
		switch {
		case errors.Is(err, verbs.ErrQueueFull):
			time.Sleep(100 * time.Microsecond)
		case err != nil:
			return
		}
		if r.IntN(4) == 0 {
			_, _ = to.qp.PostRecv([]verbs.RecvWR{{SGEs: []verbs.SGE{{Addr: to.mr.Addr(), Length: 64, LKey: to.mr.LKey()}}}})
		}
		progress()
	}
}

// TestOpenTwice: two devices of one count their own objects, and do not mix.
func TestOpenTwice(t *testing.T) {
	a, b := device(t), device(t)
	pd, err := a.AllocPD()
	require.NoError(t, err)
	require.Equal(t, verbs.Resources{PD: 1}, a.Resources())
	require.Equal(t, verbs.Resources{}, b.Resources())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l := listenOn(t, a)
	id, err := b.Resolve(ctx, l.Addr())
	require.NoError(t, err)
	cq, err := b.CreateCQ(verbs.CQInit{Depth: 4})
	require.NoError(t, err)
	_, err = id.CreateQP(pd, verbs.QPInit{SendCQ: cq, RecvCQ: cq})
	require.ErrorIs(t, err, verbs.ErrInvalid)
	require.ErrorIs(t, a.Close(), verbs.ErrBusy)
	for _, c := range []interface{ Close() error }{id, cq, l, pd} {
		require.NoError(t, c.Close())
	}
}

func TestPostsDoNotAllocate(t *testing.T) {
	d := device(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l := listenOn(t, d)
	var c, s end
	require.NoError(t, connectEnds(ctx, d, l, &c, &s))
	wrs := []verbs.SendWR{{Op: verbs.OpRDMAWrite, Flags: verbs.Signaled, RemoteAddr: s.mr.Addr(), RKey: s.mr.RKey(),
		SGEs: []verbs.SGE{{Addr: c.mr.Addr(), Length: 8, LKey: c.mr.LKey()}}}}
	var failed error
	n := testing.AllocsPerRun(testDepth/2, func() {
		if _, err := c.qp.PostSend(wrs); err != nil {
			failed = err
		}
	})
	require.NoError(t, failed)
	require.Zero(t, n, "allocations of a post, and of polling beside it")
	require.NoError(t, errors.Join(c.close(), s.close(), l.Close()))
}
