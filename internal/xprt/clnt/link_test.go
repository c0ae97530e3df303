package clnt

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
)

type endpoint struct {
	dead, proven, started, gone bool
	cause                       error
}

func (e *endpoint) Dead() bool   { return e.dead }
func (e *endpoint) Proven() bool { return e.proven }
func (e *endpoint) Start()       { e.started = true }
func (e *endpoint) Disconnect(cause error) {
	if !e.dead {
		e.dead, e.cause = true, cause
	}
}
func (e *endpoint) Teardown() error { e.Disconnect(ErrClosed); e.gone = true; return nil }

type link = Link[endpoint, *endpoint]

var errRefused = errors.New("refused")

func virtual(t *testing.T, f func(s *sched.Sched)) {
	s := sched.NewVirtual(1)
	defer func() { require.NoError(t, s.Close()) }()
	f(s)
}

// TestBackoff: the wait before an attempt doubles from Min to Max, begins anew after a connection, and is no wait after
// one that was proven.
func TestBackoff(t *testing.T) {
	virtual(t, func(s *sched.Sched) {
		var at []sched.Duration
		var l link
		up := false
		began := s.Now()
		l.Init(s, "server", Reconnect{Min: 5, Max: 30}, func(context.Context) (*endpoint, error) {
			at = append(at, s.Now().Sub(began))
			if !up && len(at) > 1 {
				up = len(at) == 6
				return nil, errRefused
			}
			return &endpoint{}, nil
		}, func(err error) { assert.ErrorIs(t, err, errRefused) })
		ctx := context.Background()
		require.NoError(t, l.Connect(ctx))
		first := l.Load()
		assert.True(t, first.started)
		first.proven = true
		l.Disconnect(errRefused)
		assert.ErrorIs(t, first.cause, errRefused)
		e, err := l.Ready(ctx)
		require.NoError(t, err)
		assert.NotSame(t, first, e)
		assert.True(t, first.gone)
		// Proven: at once. Then Min, twice that, and so on to Max.
		assert.Equal(t, []sched.Duration{0, 0, 5, 15, 35, 65, 95}, at)

		l.Disconnect(errRefused) // was never proven
		_, err = l.Ready(ctx)
		require.NoError(t, err)
		assert.Equal(t, sched.Duration(100), at[len(at)-1])
		n, _ := l.Connects()
		assert.EqualValues(t, 3, n)
		closed, err := l.Close(func() error { return nil })
		assert.True(t, closed)
		require.NoError(t, err)
	})
}

// TestSoft gives up after Retrans attempts more, and says what the last one failed of.
func TestSoft(t *testing.T) {
	virtual(t, func(s *sched.Sched) {
		var l link
		n := 0
		l.Init(s, "server", Reconnect{Min: 1, Max: 1, Soft: true, Retrans: 2}, func(context.Context) (*endpoint, error) {
			n++
			return nil, errRefused
		}, func(error) {})
		_, err := l.Ready(context.Background())
		assert.ErrorIs(t, err, ErrTimedOut)
		assert.ErrorIs(t, err, errRefused)
		assert.Equal(t, 3, n)
	})
}

// TestCloseEndsAttempt: an attempt that goes on for ever ends with Close, and nothing connects after it.
func TestCloseEndsAttempt(t *testing.T) {
	virtual(t, func(s *sched.Sched) {
		var l link
		calls := s.NewGroup("the calls")
		l.Init(s, "server", Reconnect{Min: 1, Max: 1}, func(ctx context.Context) (*endpoint, error) {
			return nil, s.Sleep(ctx, 3600*sched.Second)
		}, func(error) {})
		calls.Go("call", func() {
			_, err := l.Ready(context.Background())
			assert.ErrorIs(t, err, ErrClosed)
		})
		require.NoError(t, s.Sleep(context.Background(), sched.Second))
		first, err := l.Close(func() error { return calls.Wait(sched.Cleanup) })
		assert.True(t, first)
		require.NoError(t, err)
		assert.Less(t, s.Now().Sub(0), sched.Duration(2*sched.Second))
		first, err = l.Close(nil)
		assert.False(t, first)
		require.NoError(t, err)
		assert.ErrorIs(t, l.Connect(context.Background()), ErrClosed)
		_, err = l.Ready(context.Background())
		assert.ErrorIs(t, err, ErrClosed)
		assert.True(t, l.Closed())
	})
}

func TestSlots(t *testing.T) {
	virtual(t, func(s *sched.Sched) {
		var l Slots
		l.Init(s, 2, sched.Usage{Name: "slots"})
		assert.EqualValues(t, 1, l.XIDBits())
		ctx := context.Background()
		a, waited, err := l.Take(ctx)
		require.NoError(t, err)
		assert.False(t, waited)
		_, _, err = l.Take(ctx)
		require.NoError(t, err)
		short, cancel := s.WithTimeout(ctx, sched.Second)
		_, waited, err = l.Take(short)
		cancel()
		assert.Error(t, err)
		assert.True(t, waited)
		l.Give(a)
		l.Give(1 - a)
		assert.Equal(t, 2, l.Free())
		l.Shut()
		_, _, err = l.Take(ctx)
		assert.ErrorIs(t, err, ErrClosed)
		require.NoError(t, l.Drain())
		l.Close()
		assert.Equal(t, 2, l.Free())
	})
}

// TestTimer: a call is late after its timeout, and not more than a tick before the next sixteenth; the timer rests
// without calls.
func TestTimer(t *testing.T) {
	virtual(t, func(s *sched.Sched) {
		var c Timer
		var sent uint32
		busy, ticks, late := true, 0, sched.Time(0)
		c.Init(s, 16*sched.Second, func(now uint32) bool {
			ticks++
			if busy && Late(now, sent) {
				late, busy = s.Now(), false
			}
			return busy
		})
		sent = c.Start()
		require.NoError(t, s.Sleep(context.Background(), 3600*sched.Second))
		assert.Equal(t, 17*sched.Second, sched.Duration(late.Sub(0)))
		assert.Equal(t, 17, ticks)
		c.Stop()
	})
}
