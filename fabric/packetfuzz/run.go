package packetfuzz

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// maxSteps bounds what one input does.
const maxSteps = 24

// Result is what came of an input.
type Result struct {
	Story   []string // a packet a line: "> " sent, "< " come back
	Trace   uint64   // of all of it
	Packets int      // sent
	Err     error    // what went otherwise than the rules have it, and where
}

func (r *Result) String() string {
	s := strings.Join(r.Story, "\n")
	if r.Err != nil {
		s += "\n  but: " + r.Err.Error()
	}
	return s
}

func (r *Result) line(format string, args ...any) {
	r.Story = append(r.Story, fmt.Sprintf(format, args...))
}

// Try plays an input on a connection of its own. The error is of the rig; what the queue pair did wrong is in the result.
func (r *Rig) Try(in []byte) (*Result, error) {
	res := &Result{}
	before := r.Packets
	var err error
	if len(in) > 0 && in[0]&1 == 1 {
		err = r.requester(in[1:], res)
	} else {
		err = r.responder(in[min(1, len(in)):], res)
	}
	res.Packets = r.Packets - before
	h := fnv.New64a()
	for _, l := range res.Story {
		_, _ = h.Write([]byte(l))
	}
	res.Trace = h.Sum64()
	return res, err
}

// responder plays a hostile requester.
func (r *Rig) responder(in []byte, res *Result) error {
	o := &oracle{}
	g := &gen{in: in, o: o}
	psn, ird := g.startPSN(), 1+int(g.byte())%maxIRD
	if err := r.connect(psn, ird); err != nil {
		return err
	}
	o.reset(r, psn, ird)
	res.line("psn %d, IRD %d", psn, ird)
	for k := range pick(g, 8, 0, 1, 2, 4) {
		if err := r.receive(o, uint64(k), pick(g, 1000, 0, 4, 100, mtu, 3*mtu)); err != nil {
			return err
		}
	}
	dead := 0
	var sent []softroce.RawPacket
	for step := 0; step < maxSteps && (step < 2 || len(g.in) > 0) && dead < 2; step++ {
		f := g.odd(128)
		if f > 0 && f <= 64 && !o.dead && len(o.recvs) < maxDepth/2 {
			if err := r.receive(o, uint64(100+step), 600); err != nil {
				return err
			}
		}
		var ps []softroce.RawPacket
		if f > 64 && len(sent) > 0 {
			ps = []softroce.RawPacket{sent[f%len(sent)]} // again
		} else {
			ps = g.burst()
			sent = append(sent, ps...)
		}
		for i := range ps {
			res.line("> %s", Format(&ps[i]))
		}
		w := o.step(ps)
		if err := r.send(ps...); err != nil {
			return err
		}
		for i := range r.seen {
			res.line("< %s", Format(&r.seen[i]))
		}
		if res.Err = o.compare(r, w); res.Err != nil {
			return nil
		}
		if o.dead {
			dead++
		}
	}
	return nil
}

// receive posts one into the own region.
func (r *Rig) receive(o *oracle, id uint64, n int) error {
	off := int(id%4) * 1000
	wr := verbs.RecvWR{ID: id}
	if n > 0 {
		wr.SGEs = []verbs.SGE{{Addr: r.mr[regOwn].Addr() + uint64(off), Length: uint32(n), LKey: r.mr[regOwn].LKey()}}
	}
	if _, err := r.qp.PostRecv([]verbs.RecvWR{wr}); err != nil {
		return fmt.Errorf("packetfuzz: receive: %w", err)
	}
	o.recvs = append(o.recvs, receive{id, off, n})
	return nil
}

// Shrink makes an input as legal as it can be while fails still says true of it, with at most tries calls.
func Shrink(in []byte, tries int, fails func([]byte) bool) []byte {
	best := append([]byte(nil), in...)
	try := func(b []byte) bool {
		tries--
		if tries < 0 || !fails(b) {
			return false
		}
		best = b
		return true
	}
	for n := len(best) / 2; n > 0; {
		if n > len(best) || !try(append([]byte(nil), best[:len(best)-n]...)) {
			n /= 2
		}
	}
	for i := range best {
		if i >= len(best) || best[i] == 0 || i == 0 {
			continue
		}
		b := append([]byte(nil), best...)
		if b[i] = 0; !try(b) {
			b = append(append([]byte(nil), best[:i]...), best[i+1:]...)
			try(b)
		}
	}
	return best
}

// Options say how long a campaign is.
type Options struct {
	Seed   uint64        // of the inputs; 0 is 1
	Inputs int           // 0: 10,000, or no bound if Time is set
	Time   time.Duration // of the wall clock; 0: no bound
	Most   int           // failures to stop after; 0 is 5
	Same   int           // each so-manieth input is played twice, and must give the same; 0: 64
}

// Failure is an input that went wrong.
type Failure struct {
	Input []byte // made small
	Res   *Result
}

// Report is what came of a campaign.
type Report struct {
	Inputs, Packets int
	Elapsed         time.Duration
	Failures        []Failure
}

func (r *Report) String() string {
	s := fmt.Sprintf("%d inputs, %d packets in %v, %.0f packets/s, %d failures", r.Inputs, r.Packets, r.Elapsed.Round(time.Millisecond),
		float64(r.Packets)/max(r.Elapsed.Seconds(), 1e-9), len(r.Failures))
	for _, f := range r.Failures {
		s += fmt.Sprintf("\ninput %x:\n%s", f.Input, f.Res)
	}
	return s
}

// Campaign plays random inputs. An error means that it could not go on.
func (r *Rig) Campaign(o Options) (rep *Report, err error) {
	if o.Inputs == 0 && o.Time == 0 {
		o.Inputs = 10_000
	}
	if o.Most == 0 {
		o.Most = 5
	}
	if o.Same == 0 {
		o.Same = 64
	}
	rep = &Report{}
	start := time.Now()
	defer func() { rep.Elapsed = time.Since(start) }()
	rnd := rand.New(rand.NewPCG(max(o.Seed, 1), 1))
	in := make([]byte, 160)
	for o.Inputs == 0 || rep.Inputs < o.Inputs {
		if o.Time > 0 && rep.Inputs%16 == 0 && time.Since(start) >= o.Time {
			break
		}
		RandomInput(rnd, in)
		res, err := r.Try(in)
		if err != nil {
			return rep, fmt.Errorf("input %x: %w", in, err)
		}
		rep.Inputs++
		rep.Packets += res.Packets
		if res.Err == nil {
			if rep.Inputs%o.Same != 0 {
				continue
			}
			again, err := r.Try(in)
			if err != nil {
				return rep, err
			}
			if again.Trace == res.Trace {
				continue
			}
			again.Err = fmt.Errorf("the second time it went otherwise; the first time:\n%s", strings.Join(res.Story, "\n"))
			rep.Failures = append(rep.Failures, Failure{append([]byte(nil), in...), again})
		} else {
			f := Failure{Res: res}
			f.Input = Shrink(in, 300, func(b []byte) bool {
				x, err := r.Try(b)
				if err != nil || x.Err == nil {
					return false
				}
				f.Res = x
				return true
			})
			rep.Failures = append(rep.Failures, f)
		}
		if len(rep.Failures) >= o.Most {
			break
		}
	}
	return rep, nil
}
