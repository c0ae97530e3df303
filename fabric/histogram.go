package fabric

import (
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

var inf = math.Inf(1)

// Histogram holds call latencies to two digits, from 1 ns to 20 minutes.
type Histogram struct{ h *hdrhistogram.Histogram }

const maxLatency = 20 * time.Minute

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(maxLatency), 2) }

// Quantile is the latency that the share q of the calls did not exceed.
func (h Histogram) Quantile(q float64) time.Duration {
	if h.h == nil {
		return 0
	}
	return time.Duration(h.h.ValueAtQuantile(q * 100))
}

// Mean is the mean latency.
func (h Histogram) Mean() time.Duration {
	if h.h == nil {
		return 0
	}
	return time.Duration(h.h.Mean())
}

// Max is the longest.
func (h Histogram) Max() time.Duration {
	if h.h == nil {
		return 0
	}
	return time.Duration(h.h.Max())
}

// Count is the number of calls.
func (h Histogram) Count() int64 {
	if h.h == nil {
		return 0
	}
	return h.h.TotalCount()
}

// recorder has a histogram for each task, or, for very many, for several.
type recorder struct {
	shards []recShard
	shared bool
}

type recShard struct {
	mu sync.Mutex // if shared
	h  *hdrhistogram.Histogram
	_  [48]byte
}

// maxShards bounds the histograms, of 35 KB each.
const maxShards = 64

func newRecorder(n int) *recorder {
	r := &recorder{shards: make([]recShard, min(max(n, 1), maxShards)), shared: n > maxShards}
	for i := range r.shards {
		r.shards[i].h = newHistogram()
	}
	return r
}

func (r *recorder) record(worker int, d time.Duration) {
	s := &r.shards[worker%len(r.shards)]
	if r.shared {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	_ = s.h.RecordValue(int64(min(max(d, 1), maxLatency)))
}

func (r *recorder) sum() Histogram {
	h := newHistogram()
	for i := range r.shards {
		h.Merge(r.shards[i].h)
	}
	return Histogram{h}
}
