package fabric

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/nfsclient"
)

// ChaosCampaign is Chaos with many seeds.
type ChaosCampaign struct {
	First   uint64        // first seed
	Seeds   int           // how many; 0: as many as Time allows
	Time    time.Duration // of the wall clock, after which no seed begins; 0: no bound
	Twice   bool          // run each seed twice: it fails if its reports differ. Not live
	Workers int           // seeds at a time; default all cores. It changes no result
	Stop    int           // stop after so many failures; default 3
	Options ChaosOptions

	Progress func(ChaosSummary) // after each seed; one call at a time
}

// ChaosSummary is what a campaign did. All but Wall is the same for equal seeds.
type ChaosSummary struct {
	First        uint64         `json:"first"`
	Seeds        int            `json:"seeds"` // that ran
	Total        int            `json:"total"` // that were asked for; 0 if time decides
	Twice        bool           `json:"twice"`
	Fired        int            `json:"fired"`        // seeds in which a fault fired
	Combinations int            `json:"combinations"` // distinct ones of faults that fired
	Kinds        map[string]int `json:"kinds"`        // seeds in which a kind fired
	Times        map[string]int `json:"times"`        // and how often in all
	Ways         map[string]int `json:"ways"`         // seeds by registration mode, or tcp
	Devices      map[string]int `json:"devices"`      // seeds by personality
	Calls        int            `json:"calls"`
	Failed       int            `json:"failed_calls"` // as they may
	Bytes        int64          `json:"bytes_compared"`
	Reconnects   int            `json:"reconnects"`
	Virtual      time.Duration  `json:"fabric_time_ns"`
	Wall         time.Duration  `json:"wall_ns"`
	Failures     []ChaosFailure `json:"failures"`
}

// ChaosFailure is a seed that found something.
type ChaosFailure struct {
	Seed    uint64         `json:"seed"`
	Error   string         `json:"error"`
	Faults  string         `json:"faults"` // all, in text form
	Minimal string         `json:"minimal"`
	Story   string         `json:"story"` // what happens with the minimal faults
	Options []string       `json:"replay"`
	Counts  []faults.Count `json:"-"` // of the minimal faults
}

// RunChaosCampaign runs the seeds of a campaign. The faults of a seed that fails are made fewer, as long as it still
// fails; live, where nothing replays, they are not. The error is that of ctx.
func RunChaosCampaign(ctx context.Context, c ChaosCampaign) (ChaosSummary, error) {
	if c.Seeds <= 0 && c.Time <= 0 {
		return ChaosSummary{}, errors.New("fabric: chaos: neither seeds nor time")
	}
	if c.Workers <= 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Stop <= 0 {
		c.Stop = 3
	}
	c.Twice = c.Twice && !c.Options.Live
	r := &chaosRunner{c: c, began: time.Now(), combinations: map[string]bool{}}
	r.sum = ChaosSummary{First: c.First, Total: max(c.Seeds, 0), Twice: c.Twice, Kinds: map[string]int{}, Times: map[string]int{}, Ways: map[string]int{}, Devices: map[string]int{}}
	var wg sync.WaitGroup
	for range c.Workers {
		wg.Go(func() {
			for {
				seed, ok := r.next(ctx)
				if !ok {
					return
				}
				r.one(ctx, seed)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(r.sum.Failures, func(a, b ChaosFailure) int { return int(int64(a.Seed - b.Seed)) })
	r.sum.Wall = time.Since(r.began)
	return r.sum, ctx.Err()
}

type chaosRunner struct {
	c     ChaosCampaign
	began time.Time

	mu           sync.Mutex
	taken        int
	combinations map[string]bool
	sum          ChaosSummary
}

func (r *chaosRunner) next(ctx context.Context) (seed uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.c
	if ctx.Err() != nil || c.Seeds > 0 && r.taken >= c.Seeds || c.Time > 0 && time.Since(r.began) >= c.Time || len(r.sum.Failures) >= c.Stop {
		return 0, false
	}
	r.taken++
	return c.First + uint64(r.taken-1), true
}

func (r *chaosRunner) one(ctx context.Context, seed uint64) {
	o := r.c.Options
	rep, err := RunChaosWith(ctx, seed, o)
	if err == nil && r.c.Twice {
		again, aerr := RunChaosWith(ctx, seed, o)
		if a, b := fmt.Sprint(rep, rep.Fingerprint), fmt.Sprint(again, again.Fingerprint); aerr != nil || a != b {
			err = fmt.Errorf("the same seed does something else: %w\n%s\n%s", aerr, a, b)
		}
	}
	if ctx.Err() != nil {
		return
	}
	var f *ChaosFailure
	if err != nil {
		f = shrinkChaos(ctx, seed, o, rep, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(rep)
	if f != nil {
		r.sum.Failures = append(r.sum.Failures, *f)
	}
	if r.c.Progress != nil {
		s := r.sum
		s.Wall = time.Since(r.began)
		s.Kinds, s.Times, s.Ways, s.Devices = maps.Clone(s.Kinds), maps.Clone(s.Times), maps.Clone(s.Ways), maps.Clone(s.Devices)
		r.c.Progress(s)
	}
}

func (r *chaosRunner) add(rep *ChaosReport) {
	s := &r.sum
	s.Seeds++
	s.Calls, s.Failed, s.Bytes, s.Reconnects = s.Calls+rep.Calls, s.Failed+rep.Failed, s.Bytes+rep.Bytes, s.Reconnects+rep.Reconnects
	s.Virtual += rep.Elapsed
	s.Devices[rep.Personality]++
	if rep.Proto == TCP {
		s.Ways["tcp"]++
	} else {
		s.Ways[rep.Mode.String()]++
	}
	if x := rep.Combination(); x != "" {
		s.Fired++
		r.combinations[x] = true
	}
	s.Combinations = len(r.combinations)
	kinds := map[string]bool{}
	for _, c := range rep.Faults {
		if c.Fired > 0 {
			kinds[c.Fault.Kind.String()] = true
			s.Times[c.Fault.Kind.String()] += c.Fired
		}
	}
	for k := range kinds {
		s.Kinds[k]++
	}
}

// shrinkChaos leaves out faults of a seed that fails, as long as it still does.
func shrinkChaos(ctx context.Context, seed uint64, o ChaosOptions, rep *ChaosReport, err error) *ChaosFailure {
	all := faultsOf(rep.Faults)
	f := &ChaosFailure{Seed: seed, Error: err.Error(), Faults: faults.Format(all), Story: err.Error(), Counts: rep.Faults}
	left := all
	for i := 0; i < len(left) && !o.Live && ctx.Err() == nil; {
		fewer := slices.Delete(slices.Clone(left), i, i+1)
		try := o
		try.Faults, try.NoFaults = fewer, true
		r, terr := RunChaosWith(ctx, seed, try)
		if terr == nil || ctx.Err() != nil {
			i++
			continue
		}
		left, f.Story, f.Counts = fewer, terr.Error(), r.Faults
	}
	f.Minimal = faults.Format(left)
	f.Options = o.args(seed, f.Minimal)
	return f
}

func faultsOf(counts []faults.Count) []faults.Fault {
	var out []faults.Fault
	for _, c := range counts {
		out = append(out, c.Fault)
	}
	return out
}

// args are the arguments of nfsrdma that run a seed again.
func (o *ChaosOptions) args(seed uint64, list string) []string {
	if list == "" {
		list = "none"
	}
	a := []string{"chaos", "-seed", fmt.Sprint(seed), "-seeds", "1"}
	if o.Mode != nfsclient.Auto {
		a = append(a, "-mode", o.Mode.String())
	}
	if o.Personality != "" {
		a = append(a, "-device-profile", o.Personality)
	}
	if o.Proto != "" {
		a = append(a, "-proto", o.Proto)
	}
	if o.Live {
		a = append(a, "-live")
	}
	return append(a, "-faults", list)
}

// Replay is the command that runs the minimal faults again.
func (f *ChaosFailure) Replay() string {
	var b strings.Builder
	b.WriteString("nfsrdma")
	for _, a := range f.Options {
		if strings.ContainsAny(a, " ;>|&$'\"") {
			a = "'" + a + "'" // no fault has a quote in it
		}
		b.WriteString(" " + a)
	}
	return b.String()
}
