package fabric

import (
	"fmt"
	"time"
)

// Rates in bytes a second; MBps is 10^6 as in the reports.
const (
	KBps = 1e3
	MBps = 1e6
	GBps = 1e9
)

// TB is what the fabric needs of a *testing.T or *testing.B.
type TB interface {
	Helper()
	Name() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	FailNow()
	Failed() bool
	Cleanup(func())
}

// Range is an interval of values, both ends included.
type Range struct{ Lo, Hi float64 }

// Between is [lo, hi].
func Between(lo, hi float64) Range { return Range{lo, hi} }

// AtLeast is [lo, infinity).
func AtLeast(lo float64) Range { return Range{lo, inf} }

// AtMost is (-infinity, hi].
func AtMost(hi float64) Range { return Range{-inf, hi} }

// Within is [v(1-f), v(1+f)]: Within(100*MBps, 0.05) is 5 % either way.
func Within(v, f float64) Range { return Range{v * (1 - f), v * (1 + f)} }

// Has says whether v is in the range.
func (r Range) Has(v float64) bool { return v >= r.Lo && v <= r.Hi }

func (r Range) format(unit string, scale float64) string {
	switch {
	case r.Hi == inf:
		return fmt.Sprintf("at least %.4g %s", r.Lo/scale, unit)
	case r.Lo == -inf:
		return fmt.Sprintf("at most %.4g %s", r.Hi/scale, unit)
	}
	return fmt.Sprintf("%.4g to %.4g %s", r.Lo/scale, r.Hi/scale, unit)
}

// WantThroughput fails the test unless the payload rate, in bytes a second of the
// fabric's time, is in r. Live, or on a real device, time depends on the machine: then it only logs.
func (r *Result) WantThroughput(t TB, want Range) {
	t.Helper()
	r.want(t, "throughput", "MB/s", r.Throughput(), want, MBps)
}

// WantOps is WantThroughput for calls a second.
func (r *Result) WantOps(t TB, want Range) {
	t.Helper()
	r.want(t, "rate", "calls/s", r.OpsPerSecond(), want, 1)
}

// WantLatency is WantThroughput for a quantile (0 to 1) of the call latency, in seconds.
func (r *Result) WantLatency(t TB, quantile float64, want Range) {
	t.Helper()
	v := float64(r.Latency.Quantile(quantile)) / float64(time.Second)
	r.want(t, fmt.Sprintf("latency at %g", quantile), "us", v, want, 1e-6)
}

func (r *Result) want(t TB, what, unit string, got float64, want Range, scale float64) {
	t.Helper()
	if want.Has(got) {
		return
	}
	msg := fmt.Sprintf("%s is %.4g %s, want %s\n%s", what, got/scale, unit, want.format(unit, scale), r)
	if r.live {
		t.Logf("(live, not asserted) %s", msg)
		return
	}
	t.Errorf("%s", msg)
}
