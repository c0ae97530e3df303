package xprtrdma

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
)

// Goroutines make calls, cancel some, and the connection is dropped under them: for the race detector. Data that
// a call without error brings must be right, and a cancelled call's memory must not change afterwards.
func TestLiveCallsCancelsAndDrops(t *testing.T) {
	for _, mc := range modeCases {
		t.Run(mc.String(), func(t *testing.T) {
			mode := mc.mode
			n := 9000
			if mode == Bounce {
				n = 2000
			}
			r := newRig(t, live, mc.use, withConfig(func(c *Config) {
				c.ReconnectMin, c.ReconnectMax = sched.Millisecond, 2*sched.Millisecond
			}), serve(func(k *call) {
				if len(k.hdr.Reads) > 0 {
					if got := k.fetch(uint32(len(k.msg))); got != nil {
						assert.True(t, bytes.Equal(pattern(n, 7), got), "data")
					}
				}
				k.reply()
			}))
			g := r.s.NewGroup("callers")
			for i := range 12 {
				g.Go(fmt.Sprint("caller ", i), func() {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					for range 40 {
						r.liveCall(rng, n, mode)
					}
				})
			}
			g.Go("drops", func() {
				for i := range 6 {
					r.s.Sleep(bg, 2*sched.Millisecond)
					if i%2 == 0 {
						r.x.Disconnect()
					} else {
						r.peer.dropAll()
					}
				}
			})
			require.NoError(t, g.Wait(bg))
		})
	}
}

func (r *rig) liveCall(rng *rand.Rand, n int, mode RegMode) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if rng.IntN(8) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(300))*time.Microsecond)
	}
	defer cancel()
	var c callSpec
	switch rng.IntN(3) {
	case 0:
		c.data = pattern(n, 7)
	case 1:
		if mode != Bounce {
			c.sink = make([]byte, n)
		}
	}
	_, err := r.do(ctx, c)
	if err != nil {
		assert.ErrorIs(r.t, err, ctx.Err())
		was := bytes.Clone(c.sink)
		r.s.Sleep(bg, 100*sched.Microsecond)
		assert.Equal(r.t, was, c.sink, "memory of a cancelled call")
		return
	}
	if c.sink != nil {
		assert.Equal(r.t, pattern(n, c.sink[0]), c.sink)
	}
}

// Close from another goroutine at any moment.
func TestLiveClose(t *testing.T) {
	for i := range 16 {
		r := newRig(t, live, chunkCases[i%len(chunkCases)].use)
		g := r.s.NewGroup("callers")
		for k := range 6 {
			g.Go(fmt.Sprint("caller ", k), func() {
				for {
					if _, err := r.do(bg, callSpec{sink: make([]byte, 5000), data: make([]byte, 5000)}); err != nil {
						assert.ErrorIs(t, err, ErrClosed)
						return
					}
				}
			})
		}
		r.sleep(sched.Duration(i) * 100 * sched.Microsecond)
		require.NoError(t, r.x.Close())
		require.NoError(t, g.Wait(bg))
		r.close()
	}
}
