package link

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
)

func TestPicosecondsAByte(t *testing.T) {
	for bps, ps := range map[int64]uint64{1e9: 8000, 8e9: 1000, 10e9: 800, 25e9: 320, 40e9: 200, 100e9: 80, 200e9: 40, 400e9: 20, 8e12: 1} {
		o := newPort(&Config{BitsPerSecond: bps})
		assert.Equal(t, [2]uint64{ps, 1}, [2]uint64{o.num, o.den}, "%d b/s", bps)
	}
}

// Back to back, the end of the last packet is that of all bytes together, to the picosecond.
func TestNoDriftAtOddRates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, bps := range []int64{3, 9600, 1e9 + 7, 54_545_454_545, 3e9, 56e9, 7_999_999_999_999} {
		t.Run(fmt.Sprint(bps), func(t *testing.T) {
			o := newPort(&Config{BitsPerSecond: bps})
			start := sched.Time(12345)
			sum, most := int64(0), 10000
			if bps < 1e6 {
				most = 100
			}
			for range 1000 {
				n := r.IntN(most)
				sum += int64(n)
				end, ok := o.send(start, n)
				require.True(t, ok)
				want := new(big.Int).Mul(big.NewInt(sum), big.NewInt(8e12))
				want.Div(want, big.NewInt(bps))
				require.Equal(t, want.Int64(), int64(end.Sub(start)))
			}
			assert.Equal(t, o.free.Sub(start), o.busyUntil(o.free))
			assert.Zero(t, o.busyUntil(start))
		})
	}
}

// A wire that is too slow for its load ends with time, without wrapping round.
func TestTimeSaturates(t *testing.T) {
	for _, bps := range []int64{1, 3} {
		o := newPort(&Config{BitsPerSecond: bps})
		last := sched.Time(0)
		for range 20 {
			end, ok := o.send(0, math.MaxInt)
			require.True(t, ok)
			require.GreaterOrEqual(t, end, last)
			last = end
			end, _ = o.send(0, 1<<20)
			require.GreaterOrEqual(t, end, last)
		}
		assert.Equal(t, sched.Time(math.MaxInt64), last)
		assert.GreaterOrEqual(t, o.busyUntil(0), sched.Duration(0))
	}
}

// A limited queue against a plain list of start times.
func TestQueueLimit(t *testing.T) {
	for _, limit := range []int{1, 2, 15, 16, 17, 100} {
		r := rand.New(rand.NewPCG(uint64(limit), 0))
		o := newPort(&Config{BitsPerSecond: 8e12, Queue: limit})
		var starts []sched.Time
		now, free := sched.Time(0), sched.Time(0)
		drops := 0
		for range 5000 {
			now += sched.Time(r.IntN(120))
			waiting := 0
			for _, at := range starts {
				if at > now {
					waiting++
				}
			}
			n := 1 + r.IntN(220)
			end, ok := o.send(now, n)
			if free > now && waiting == limit {
				require.False(t, ok, "%d wait", waiting)
				drops++
				continue
			}
			require.True(t, ok, "%d wait", waiting)
			start := max(free, now)
			starts = append(starts, start)
			free = start + sched.Time(n)
			require.Equal(t, free, end)
		}
		if limit < 100 {
			assert.Positive(t, drops, "limit %d", limit)
		}
	}
}
