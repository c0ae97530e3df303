package chunkfuzz

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// TB is the part of testing.TB that Run needs.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Options say how long to fuzz, and what. Zero fields are the defaults.
type Options struct {
	Seed   uint64        // of the inputs; 0 is 1
	Calls  int           // to make; 0 is 10,000, or no bound if Time is set
	Time   time.Duration // to take, of the wall clock; 0 is no bound
	Strict bool          // what the RFCs leave open must be as this module's server has it
	Export string        // what MNT is asked for; "" is "/"
	Root   []byte        // handle of a directory to use instead, where the server has no MOUNT over RDMA
	Most   int           // failures after which to stop, alike ones counting once; 0 is 5
	Input  []byte        // this input alone, such as one that a Report has

	// Known has what is known of the server: it is counted and no failure.
	Known []Known
	// Careful leaves messages out that end the machine of a known server: see Deadly.
	Careful bool
}

// Report is what came of a campaign.
type Report struct {
	Calls    int
	Kinds    [numKinds]int // by Kind
	Open     int           // calls of which nothing was foreseen
	Elapsed  time.Duration
	Failures []Failure
	Known    map[string]int // calls that went as Options.Known has it, by name
}

// Failure is a call that went wrong.
type Failure struct {
	Call  int    // its number
	Input []byte // made small, as far as it fails again
	Err   error  // with the story of the message
	As    string // what went otherwise: Result.Difference
	Times int    // calls that went so
}

func (r *Report) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d calls in %v, %.0f/s:", r.Calls, r.Elapsed.Round(time.Millisecond), float64(r.Calls)/max(r.Elapsed.Seconds(), 1e-9))
	for k, n := range r.Kinds {
		if n > 0 {
			fmt.Fprintf(&s, " %v %d,", Kind(k), n)
		}
	}
	fmt.Fprintf(&s, " not foreseen %d, failures %d", r.Open, len(r.Failures))
	for _, k := range slices.Sorted(maps.Keys(r.Known)) {
		fmt.Fprintf(&s, "\nknown, %d times: %s", r.Known[k], k)
	}
	return s.String()
}

// Err joins the failures.
func (r *Report) Err() error {
	errs := make([]error, len(r.Failures))
	for i, f := range r.Failures {
		errs[i] = fmt.Errorf("call %d, input %x, %d times %s: %w", f.Call, f.Input, f.Times, f.As, f.Err)
	}
	return errors.Join(errs...)
}

// Try sends what Gen makes of an input: Session.Try and Rig.TryContext are such.
type Try func(ctx context.Context, in []byte) (*Result, error)

// Campaign tries random inputs. An error means that it could not go on; what went wrong in calls is in the report.
func Campaign(ctx context.Context, try Try, o Options) (rep Report, err error) {
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Calls == 0 && o.Time == 0 {
		o.Calls = 10_000
	}
	if o.Most == 0 {
		o.Most = 5
	}
	start := time.Now()
	defer func() { rep.Elapsed = time.Since(start) }()
	rnd := rand.New(rand.NewPCG(o.Seed, 1))
	in := make([]byte, 96)
	if o.Input != nil {
		in, o.Calls = o.Input, 1
	}
	for ctx.Err() == nil && (o.Calls == 0 || rep.Calls < o.Calls) {
		if o.Time > 0 && rep.Calls%16 == 0 && time.Since(start) >= o.Time {
			break
		}
		if o.Input == nil {
			RandomInput(rnd, in)
		}
		res, terr := try(ctx, in)
		rep.Calls++
		rep.Kinds[res.Got.Kind]++
		if res.Want.Open {
			rep.Open++
		}
		bad := terr
		if bad == nil {
			bad = res.Err(o.Strict)
		}
		if bad == nil {
			continue
		}
		as := res.Difference()
		if k := known(o.Known, res); k != nil && terr == nil {
			if rep.Known == nil {
				rep.Known = map[string]int{}
			}
			rep.Known[k.Name]++
			continue
		}
		if i := slices.IndexFunc(rep.Failures, func(f Failure) bool { return f.As == as }); i >= 0 && terr == nil {
			rep.Failures[i].Times++
			continue
		}
		f := Failure{Call: rep.Calls - 1, Input: slices.Clone(in), Err: bad, As: as, Times: 1}
		if terr == nil {
			f.Input = Shrink(in, 60, func(b []byte) bool {
				r, err := try(ctx, b)
				if err != nil {
					return false
				}
				e := r.Err(o.Strict)
				if e == nil || r.Difference() != as || known(o.Known, r) != nil {
					return false
				}
				f.Err = e
				return true
			})
		}
		rep.Failures = append(rep.Failures, f)
		if terr != nil {
			return rep, terr
		}
		if len(rep.Failures) >= o.Most {
			break
		}
	}
	return rep, ctx.Err()
}

// Run fuzzes the server that dial connects to, which may be any: the test fails for each violation, and for each
// verdict that the RFCs do not allow. The server must let root write to the export.
func Run(t TB, dial func(context.Context) (*Requester, error), o Options) Report {
	t.Helper()
	ctx := context.Background()
	if o.Export == "" {
		o.Export = "/"
	}
	q, err := dial(ctx)
	if err != nil {
		t.Fatalf("chunkfuzz: %v", err)
	}
	s, err := NewSession(ctx, q, o.Export, o.Root)
	if err != nil {
		t.Fatalf("%v", errors.Join(err, q.Close()))
	}
	s.Careful = o.Careful
	rep, err := Campaign(ctx, s.Try, o)
	t.Logf("%v", &rep)
	for _, f := range rep.Failures {
		t.Errorf("chunkfuzz: call %d, input %x: %v", f.Call, f.Input, f.Err)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Errorf("chunkfuzz: %v", err)
	}
	return rep
}
