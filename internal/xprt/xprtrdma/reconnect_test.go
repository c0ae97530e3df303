package xprtrdma

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Calls in flight when the connection ends are sent again with the same XIDs, and end well (F22).
func TestF22RetransmitSameXID(t *testing.T) {
	for _, mode := range modeCases {
		t.Run(mode.String(), func(t *testing.T) {
			h := &holder{}
			r := newRig(t, mode.use, serve(h.serve))
			r.open(h, 8)
			n := 9000
			if mode.mode == Bounce {
				n = 2000
			}
			var calls []*pendingCall
			for i := range 4 {
				calls = append(calls, r.goDo(bg, callSpec{data: pattern(n, byte(i))}), r.goDo(bg, callSpec{sink: make([]byte, n)}))
			}
			r.settle()
			require.Equal(t, 8, h.len())
			sent := map[uint32]bool{}
			for _, k := range h.held {
				sent[k.hdr.XID] = true
			}
			h.held = nil
			r.peer.dropAll()
			r.settle()
			for again := 0; again < 8; again++ {
				require.NotZero(t, h.len())
				assert.True(t, sent[h.held[0].hdr.XID], "XID 0x%08x is new", h.held[0].hdr.XID)
				delete(sent, h.held[0].hdr.XID)
				h.release(t, 8)
				r.settle()
			}
			assert.Empty(t, sent)
			for _, c := range calls {
				assert.NoError(t, c.wait())
			}
			r.wantCounter("connect_count", 2)
			r.wantCounter("retransmissions", 8)
		})
	}
}

// F12: the regions of calls whose connection ended are not used again as they are.
func TestF12RegionsRecycledAfterDisconnect(t *testing.T) {
	h := &holder{}
	r := newRig(t, serve(h.serve))
	r.open(h, 8)
	var calls []*pendingCall
	for range 3 {
		calls = append(calls, r.goDo(bg, callSpec{sink: make([]byte, 9000)}))
	}
	r.settle()
	stale := map[uint32]bool{}
	for _, k := range h.held {
		stale[k.aKey()] = true
	}
	h.held = nil
	r.x.Disconnect()
	r.settle()
	for range 3 {
		assert.False(t, stale[h.held[0].aKey()], "a stale key is used again")
		h.release(t, 8)
		r.settle()
	}
	for _, c := range calls {
		assert.NoError(t, c.wait())
	}
	r.wantCounter("mrs_orphaned", 3)
	r.wantCounter("mrs_recycled", 3)
	r.wantCounter("mrs_allocated", 6)
}

// F11: receives are posted before the peer can answer, on every connection: RNR retries are 0, so a reply
// without receive would end the connection.
func TestF11PostBeforeOpening(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		var calls []*pendingCall
		for range 20 {
			calls = append(calls, r.goDo(bg, callSpec{}))
		}
		for _, c := range calls {
			assert.NoError(t, c.wait())
		}
		r.wantCounter("connect_count", i+1)
		r.x.Disconnect()
	}
	for _, c := range r.cdev.Counters() {
		if c.Name == "send_rnr_err" {
			assert.Zero(t, c.Value)
		}
	}
}

// A server that is down is tried again with growing intervals; a hard mount never gives up.
func TestBackoffHard(t *testing.T) {
	var at []sched.Time
	var r *rig
	down := false
	r = newRig(t, noConnect, withPeer(func(p *peerConfig) {
		p.accept = func(*peer, int) bool {
			at = append(at, r.s.Now())
			return !down
		}
	}))
	require.NoError(t, r.x.Connect(bg))
	r.mustDo(callSpec{})
	down, at = true, nil
	start := r.s.Now()
	r.peer.dropAll()
	p := r.goDo(bg, callSpec{})
	r.sleep(120 * second)
	down = false
	require.NoError(t, p.wait())
	var got []int
	for _, a := range at {
		got = append(got, int(a.Sub(start)/second))
	}
	assert.Equal(t, []int{0, 5, 15, 35, 65, 95, 125}, got)
	r.wantCounter("connect_count", 2)
}

// A soft mount gives up after Retrans further attempts, and works again when the server is back.
func TestBackoffSoft(t *testing.T) {
	down, requests := false, 0
	r := newRig(t, withConfig(func(c *Config) { c.Soft, c.Retrans = true, 2 }), withPeer(func(p *peerConfig) {
		p.accept = func(*peer, int) bool { requests++; return !down }
	}))
	r.mustDo(callSpec{})
	down, requests = true, 0
	r.peer.dropAll()
	var calls []*pendingCall
	for range 5 {
		calls = append(calls, r.goDo(bg, callSpec{}))
	}
	for _, c := range calls {
		err := c.wait()
		assert.ErrorIs(t, err, ErrTimedOut)
		assert.ErrorIs(t, err, verbs.ErrRefused)
	}
	assert.Equal(t, 3, requests, "the calls share their attempts")
	down = false
	r.mustDo(callSpec{})
}

// A call without reply ends the connection after Timeout, and is sent again on the next; soft mounts
// end it after Retrans times.
func TestTimeout(t *testing.T) {
	for _, soft := range []bool{false, true} {
		t.Run(fmt.Sprintf("soft=%t", soft), func(t *testing.T) {
			var sent []int
			var r *rig
			r = newRig(t, withConfig(func(c *Config) { c.Soft, c.Retrans = soft, 2 }), serve(func(k *call) {
				if len(k.msg) == callHead {
					k.reply()
					return
				}
				sent = append(sent, int(r.s.Now()/sched.Time(second)))
				if len(sent) == 6 {
					k.reply()
				}
			}))
			r.mustDo(callSpec{})
			_, err := r.do(bg, callSpec{args: 4})
			if soft {
				assert.ErrorIs(t, err, ErrTimedOut)
				assert.Len(t, sent, 3)
			} else {
				assert.NoError(t, err)
				assert.Len(t, sent, 6)
			}
			for i := 1; i < len(sent); i++ {
				// A connection that died without a reply is not replaced at once.
				assert.InDelta(t, 66, sent[i]-sent[i-1], 34, "%v", sent)
			}
			r.wantCounter("timeouts", len(sent)-btoi(!soft))
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A mount without timeouts waits for ever, and the scheduler says for what.
func TestNoTimeout(t *testing.T) {
	r := newRig(t, withConfig(func(c *Config) { c.Timeout = 0 }), serve(func(*call) {}))
	_, err := r.do(bg, callSpec{})
	var dead *sched.DeadlockError
	require.ErrorAs(t, err, &dead)
	assert.Contains(t, dead.Caller, "a reply (xid 0x")
}

// A call that was cancelled and never answered does not take its slot away for ever.
func TestAbandonedCallTimesOut(t *testing.T) {
	mute := true
	r := newRig(t, withConfig(func(c *Config) { c.Credits = 1 }), serve(func(k *call) {
		if !mute {
			k.reply()
		}
	}))
	ctx, cancel := r.s.WithTimeout(bg, second)
	defer cancel()
	_, err := r.do(ctx, callSpec{sink: make([]byte, 9000)})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	mute = false
	r.mustDo(callSpec{})
	assert.Greater(t, r.s.Now(), sched.Time(60*second))
	r.wantCounter("connect_count", 2)
}

// F22: the connection is dropped at any message, by either side; every call ends, and the data are right.
func TestF22DropAtAnyMessage(t *testing.T) {
	for _, mc := range modeCases {
		mode := mc.mode
		for drop := 1; drop <= 12; drop++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/message %d/after reply=%t", mc, drop, after), func(t *testing.T) {
					seen, fetched := 0, 0
					n := 20000
					if mode == Bounce {
						n = 2000
					}
					r := newRig(t, mc.use, serve(func(k *call) {
						seen++
						if seen == drop && !after {
							k.c.close()
							return
						}
						if len(k.hdr.Reads) > 0 {
							got := k.fetch(uint32(len(k.msg))) // nil once the connection is down
							assert.True(t, got == nil || bytes.Equal(pattern(n, 7), got), "data")
							fetched += btoi(got != nil)
						}
						k.reply()
						if seen == drop {
							k.c.close()
						}
					}))
					r.mustDo(callSpec{})
					var calls []*pendingCall
					sinks := make([][]byte, 5)
					for i := range sinks {
						sinks[i] = make([]byte, n)
						calls = append(calls, r.goDo(bg, callSpec{data: pattern(n, 7)}))
						if mode != Bounce {
							calls = append(calls, r.goDo(bg, callSpec{sink: sinks[i]}))
						}
					}
					for _, c := range calls {
						assert.NoError(t, c.wait())
					}
					assert.True(t, fetched >= 5 || mode == Bounce, "data fetched %d times", fetched)
					for _, s := range sinks {
						if mode != Bounce {
							// The peer's pattern begins with a byte that depends on the XID.
							assert.Equal(t, pattern(n, s[0]), s)
						}
					}
				})
			}
		}
	}
}

// Close at any moment ends every call with ErrClosed and leaves nothing; newRig's end checks the rest.
func TestCloseAtAnyMoment(t *testing.T) {
	for seed := range 100 {
		r := newRig(t, chunkCases[seed%len(chunkCases)].use, serve(func(k *call) {
			r := k.c.p.s.Rand(fmt.Sprint(seed, k.c.seen))
			k.c.p.s.Sleep(bg, sched.Duration(r.IntN(1000))*sched.Microsecond)
			for range k.hdr.Reads {
				k.fetch(uint32(len(k.msg)))
			}
			k.reply()
		}))
		var calls []*pendingCall
		for i := range 20 {
			c := callSpec{}
			switch i % 3 {
			case 1:
				c.data = make([]byte, 9000)
			case 2:
				c.sink = make([]byte, 9000)
			}
			calls = append(calls, r.goDo(bg, c))
		}
		g := r.s.NewGroup("drops")
		if seed%3 == 0 {
			g.Go("drop", func() {
				r.s.Sleep(bg, sched.Duration(seed*37)*sched.Microsecond)
				r.peer.dropAll()
			})
		}
		r.sleep(sched.Duration(seed*51) * sched.Microsecond)
		require.NoError(t, r.x.Close())
		require.NoError(t, g.Wait(bg))
		for _, c := range calls {
			if err := c.wait(); err != nil {
				assert.ErrorIs(t, err, ErrClosed)
			}
		}
		_, err := r.do(bg, callSpec{})
		assert.ErrorIs(t, err, ErrClosed)
		r.close()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Close ends callers that wait to connect, between attempts and within one.
func TestCloseWhileConnecting(t *testing.T) {
	for _, hang := range []bool{false, true} {
		down := false
		r := newRig(t, withPeer(func(p *peerConfig) {
			p.accept = func(p *peer, n int) bool {
				for down && hang {
					if p.s.Sleep(bg, 100*second) != nil {
						return false
					}
				}
				return !down
			}
		}))
		r.mustDo(callSpec{})
		down = true
		r.peer.dropAll()
		a, b := r.goDo(bg, callSpec{}), r.goDo(bg, callSpec{})
		r.sleep(7 * second)
		require.NoError(t, r.x.Close())
		assert.ErrorIs(t, a.wait(), ErrClosed)
		assert.ErrorIs(t, b.wait(), ErrClosed)
		assert.Less(t, r.s.Now(), sched.Time(10*second))
		down = false
		r.close()
	}
}

// A server that does not answer a connection request is given up after a minute, and tried again.
func TestConnectTimeout(t *testing.T) {
	requests := 0
	r := newRig(t, withPeer(func(p *peerConfig) {
		p.accept = func(p *peer, n int) bool {
			if requests++; requests == 2 {
				p.s.Sleep(bg, 100*second)
				return false
			}
			return true
		}
	}))
	r.mustDo(callSpec{})
	r.peer.dropAll()
	r.mustDo(callSpec{})
	assert.Equal(t, 3, requests)
}

// The first connection is tried once.
func TestConnectRefused(t *testing.T) {
	r := newRig(t, noConnect, withPeer(func(p *peerConfig) { p.accept = func(*peer, int) bool { return false } }))
	err := r.x.Connect(bg)
	assert.ErrorIs(t, err, verbs.ErrRefused)
	assert.ErrorContains(t, err, "connect to server:20049")
}

// A caller whose context ends while it waits for slot, credit or connection leaves no trace.
func TestCancelWhileWaiting(t *testing.T) {
	h := &holder{}
	r := newRig(t, withConfig(func(c *Config) { c.Credits = 2 }), serve(h.serve))
	ctx, cancel := r.s.WithCancel(bg)
	first := r.goDo(bg, callSpec{})
	credit := r.goDo(ctx, callSpec{sink: make([]byte, 9000)})
	slot := r.goDo(ctx, callSpec{})
	r.settle()
	cancel()
	assert.ErrorIs(t, credit.wait(), context.Canceled)
	assert.ErrorIs(t, slot.wait(), context.Canceled)
	h.release(t, 2)
	assert.NoError(t, first.wait())
	next := r.goDo(bg, callSpec{})
	r.settle()
	h.release(t, 2)
	assert.NoError(t, next.wait())
}

// The trace has a line for each message and each event.
func TestTrace(t *testing.T) {
	r := newRig(t)
	r.mustDo(callSpec{sink: make([]byte, 5)})
	r.x.Disconnect()
	require.Len(t, r.trace, 4)
	xid := fmt.Sprintf("xid=0x%08x", r.x.reqs[0].xid)
	assert.Equal(t, "* connected to server:20049: inline 4096/4096, remote invalidation true, IRD 128, ORD 0", r.trace[0])
	assert.Contains(t, r.trace[1], "> RDMA_MSG "+xid+" vers=1 credits=8 writes=[")
	assert.Contains(t, r.trace[2], "< RDMA_MSG "+xid+" vers=1 credits=8 writes=[")
	assert.Equal(t, "* disconnected: disconnected", r.trace[3])
}

// Every call is legal: the peer of these tests checks each against what RFC 8166 asks of a requester.
func TestC20C37C38C42CallsAreLegal(t *testing.T) {
	for _, mode := range []RegMode{FastReg, AllPhysical} {
		for _, data := range []int{0, 100, 9000} {
			for _, sink := range []int{0, 100, 9000} {
				for _, args := range []int{0, 8000} {
					for _, reply := range []int{0, 9000} {
						r := newRig(t, withConfig(func(c *Config) { c.Mode = mode }))
						r.mustDo(callSpec{data: make([]byte, data), sink: make([]byte, sink), args: args, maxReply: reply})
						r.close()
					}
				}
			}
		}
	}
}

// C43: GARBAGE_ARGS, as any RPC error, is an answer: the call is not sent again.
func TestC43GarbageArgs(t *testing.T) {
	calls := 0
	r := newRig(t, serve(func(k *call) {
		calls++
		h := k.answer()
		k.send(h, rpc.AppendReply(nil, &rpc.Reply{XID: h.XID, Accept: rpc.GARBAGE_ARGS}), 0)
	}))
	r.mustDo(callSpec{})
	assert.Equal(t, 1, calls)
}

// A device that is taken away ends the connection; the mount can still be closed, and leaves nothing.
func TestDeviceRemoval(t *testing.T) {
	h := &holder{}
	r := newRig(t, serve(h.serve))
	r.open(h, 8)
	a, b := r.goDo(bg, callSpec{sink: make([]byte, 9000)}), r.goDo(bg, callSpec{})
	r.settle()
	r.cdev.Remove()
	r.sleep(20 * second)
	require.NoError(t, r.x.Close())
	assert.ErrorIs(t, a.wait(), ErrClosed)
	assert.ErrorIs(t, b.wait(), ErrClosed)
}
