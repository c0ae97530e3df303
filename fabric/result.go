package fabric

import (
	"fmt"
	"time"

	"example.org/nfsrdma/internal/sched"
)

// Result is what a load achieved, without its warming calls.
type Result struct {
	Load    Load
	Calls   int64
	Bytes   int64         // payload
	Elapsed time.Duration // in the fabric's time
	Latency Histogram     // of calls, waiting for a slot included
	Client  Counters      // counted during the load, warming calls included, all mounts together
	Server  Counters      // likewise

	Uses []Use // what the resources on the way of a call were used for, busiest first; nil live

	ps   sched.Duration
	live bool
}

// Throughput is payload bytes a second.
func (r *Result) Throughput() float64 {
	if r.ps <= 0 {
		return 0
	}
	return float64(r.Bytes) / r.ps.Seconds()
}

// OpsPerSecond is calls a second.
func (r *Result) OpsPerSecond() float64 {
	if r.ps <= 0 {
		return 0
	}
	return float64(r.Calls) / r.ps.Seconds()
}

func (r *Result) String() string {
	return fmt.Sprintf("%s %d B, depth %d: %d calls, %d bytes in %v: %.1f MB/s, %.0f calls/s; latency mean %v, 50 %% %v, 99 %% %v, max %v\n\t%s\n\tclient: %s\n\tserver: %s",
		r.Load.Op, r.Load.Size, r.Load.Depth, r.Calls, r.Bytes, r.Elapsed, r.Throughput()/MBps, r.OpsPerSecond(),
		r.Latency.Mean(), r.Latency.Quantile(0.5), r.Latency.Quantile(0.99), r.Latency.Max(), r.Why(), r.Client, r.Server)
}
