package verbsfuzz

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"example.org/nfsrdma/fabric/chunkfuzz"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// Options say how long to fuzz. Zero fields are the defaults.
type Options struct {
	Seed     uint64        // of the programs; 0 is 1
	Programs int           // to run; 0 is 10,000, or no bound if Time is set
	Time     time.Duration // to take, of the wall clock; 0 is no bound
	Input    []byte        // this input alone, as a failure has it
}

// Report is what came of a campaign.
type Report struct {
	Programs, Steps int
	Ended           map[verbs.Status]int // work requests of send queues
	Elapsed         time.Duration
	Failure         *Failure // the first
}

// Failure is a program that went wrong, made small.
type Failure struct {
	Number  int
	Input   []byte   // of which Decode makes a program that fails
	Program *Program // the least of its steps that still fail
	Err     error    // with the program as a story
}

func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d programs of %d work requests in %v, %.0f/s:", r.Programs, r.Steps, r.Elapsed.Round(time.Millisecond),
		float64(r.Programs)/max(r.Elapsed.Seconds(), 1e-9))
	for _, st := range slices.Sorted(maps.Keys(r.Ended)) {
		fmt.Fprintf(&b, " %v %d,", st, r.Ended[st])
	}
	failures := 0
	if r.Failure != nil {
		failures = 1
	}
	fmt.Fprintf(&b, " failures %d", failures)
	return b.String()
}

// Err is the failure.
func (r *Report) Err() error {
	if r.Failure == nil {
		return nil
	}
	return fmt.Errorf("program %d, input %x: %w", r.Failure.Number, r.Failure.Input, r.Failure.Err)
}

// Campaign runs random programs until one fails. An error means that it could not go on.
func Campaign(ctx context.Context, r *Rig, o Options) (rep Report, err error) {
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Programs == 0 && o.Time == 0 {
		o.Programs = 10_000
	}
	start := time.Now()
	before := r.m.seen
	defer func() {
		rep.Elapsed = time.Since(start)
		rep.Ended = map[verbs.Status]int{}
		for st, n := range r.m.seen {
			if n -= before[st]; n > 0 {
				rep.Ended[verbs.Status(st)] = n
			}
		}
	}()
	rnd := rand.New(rand.NewPCG(o.Seed, 3))
	in := make([]byte, 80)
	if o.Input != nil {
		in, o.Programs = o.Input, 1
	}
	for ctx.Err() == nil && (o.Programs == 0 || rep.Programs < o.Programs) {
		if o.Time > 0 && rep.Programs%16 == 0 && time.Since(start) >= o.Time {
			break
		}
		if o.Input == nil {
			chunkfuzz.RandomInput(rnd, in)
		}
		p := Decode(in)
		rep.Programs++
		rep.Steps += len(p.Steps)
		bad := r.Run(ctx, p)
		if bad == nil {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		rep.Failure = r.least(ctx, &Failure{Number: rep.Programs - 1, Input: slices.Clone(in), Err: bad})
		return rep, nil
	}
	return rep, ctx.Err()
}

// least makes a failure small: its input, and then its steps.
func (r *Rig) least(ctx context.Context, f *Failure) *Failure {
	fails := func(p *Program) bool {
		err := r.Run(ctx, p)
		if err != nil {
			f.Err = err
		}
		return err != nil
	}
	f.Input = chunkfuzz.Shrink(f.Input, 400, func(b []byte) bool { return fails(Decode(b)) })
	f.Program = Decode(f.Input)
	for i := len(f.Program.Steps) - 1; i >= 0; i-- {
		try := *f.Program
		try.Steps = slices.Delete(slices.Clone(try.Steps), i, i+1)
		if fails(&try) {
			f.Program = &try
		}
	}
	return f
}

// Run is a campaign as a test, on a rig of its own.
func Run(t chunkfuzz.TB, o Options) Report {
	t.Helper()
	r, err := NewRig(1, softroce.Personality{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	rep, err := Campaign(context.Background(), r, o)
	t.Logf("%v", &rep)
	if err := errors.Join(err, rep.Err(), r.Close()); err != nil {
		t.Errorf("verbsfuzz: %v", err)
	}
	return rep
}
