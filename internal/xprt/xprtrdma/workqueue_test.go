package xprtrdma

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
)

func withWork(irq, wake sched.Duration) rigOption {
	return withConfig(func(c *Config) { c.Work = WorkCost{irq, wake} })
}

// Each reply waits for soft interrupts and for the worker; who waits for a credit or slot waits likewise.
func TestWorkDelaysReplies(t *testing.T) {
	r := newRig(t, withWork(30*sched.Microsecond, 5*sched.Microsecond))
	start := r.s.Now()
	r.mustDo(callSpec{})
	assert.Equal(t, 35*sched.Microsecond, r.s.Now().Sub(start))
	r.wantCounter("worker_runs", 1)

	start = r.s.Now()
	var calls []*pendingCall
	for range 24 {
		calls = append(calls, r.goDo(bg, callSpec{}))
	}
	for _, c := range calls {
		require.NoError(t, c.wait())
	}
	assert.Equal(t, 3*35*sched.Microsecond, r.s.Now().Sub(start), "8 slots: three rounds")
	r.wantCounter("worker_runs", 4)
	r.wantCounter("recvs", 25)
	for _, u := range r.s.Usage() {
		if u.Name == "the client's work queue" {
			assert.Equal(t, 8, u.Units)
			assert.EqualValues(t, 25, u.Waits)
			assert.Equal(t, 25*35*sched.Microsecond, u.Waited)
			assert.Equal(t, u.Waited, u.Held)
		}
	}
}

// One run of the worker takes what has come since it was woken, and no more.
func TestWorkerTakesWhatIsThere(t *testing.T) {
	r := newRig(t, withWork(0, 10*sched.Microsecond))
	r.mustDo(callSpec{}) // more than one credit
	start := r.s.Now()
	var calls []*pendingCall
	for _, at := range []sched.Duration{0, 4, 9, 11, 30} {
		r.sleep(at*sched.Microsecond - r.s.Now().Sub(start))
		calls = append(calls, r.goDo(bg, callSpec{}))
	}
	for _, c := range calls {
		require.NoError(t, c.wait())
	}
	assert.Equal(t, 40*sched.Microsecond, r.s.Now().Sub(start))
	r.wantCounter("worker_runs", 4)
}

// A connection that goes with replies in the queue loses them; the calls go on over the next one.
func TestWorkAndReconnect(t *testing.T) {
	r := newRig(t, withWork(sched.Millisecond, sched.Millisecond))
	r.mustDo(callSpec{})
	c := r.goDo(bg, callSpec{})
	r.sleep(1500 * sched.Microsecond)
	r.x.Disconnect()
	require.NoError(t, c.wait())
	r.wantCounter("retransmissions", 1)
	r.wantSettled()
}

func TestWorkLive(t *testing.T) {
	r := newRig(t, live, withWork(100*sched.Microsecond, 100*sched.Microsecond))
	start := r.s.Now()
	var calls []*pendingCall
	for range 24 {
		calls = append(calls, r.goDo(bg, callSpec{}))
	}
	for _, c := range calls {
		require.NoError(t, c.wait())
	}
	assert.GreaterOrEqual(t, r.s.Now().Sub(start), 3*200*sched.Microsecond)
	r.x.Disconnect()
	r.mustDo(callSpec{})
}
