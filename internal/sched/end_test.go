package sched

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCleanupOutlivesAbort: when a task stops the test, waits fail, except those that take things down.
func TestCleanupOutlivesAbort(t *testing.T) {
	s := NewLive(1)
	left := s.NewGroup("those who leave")
	gate := make(chan struct{})
	left.Go("leaves late", func() {
		assert.ErrorIs(t, s.NewWaiter("never").Wait(context.Background()), ErrAborted)
		<-gate
	})
	s.Go("stops", func() { runtime.Goexit() })
	require.ErrorIs(t, s.NewWaiter("never").Wait(context.Background()), ErrAborted)
	assert.True(t, s.Aborted())
	assert.ErrorIs(t, left.Wait(context.Background()), ErrAborted)
	close(gate)
	assert.NoError(t, left.Wait(Cleanup))
	down := s.NewGroup("the end of the scheduler")
	down.Add(1)
	ended := make(chan error)
	go func() { ended <- down.Wait(Cleanup) }()
	assert.NoError(t, s.Close())
	assert.Error(t, <-ended)
	assert.NoError(t, s.Close())
}

func TestAbortedInVirtualTime(t *testing.T) {
	s := NewVirtual(1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Go("returns", func() { assert.True(t, s.InTask()) })
		_ = s.Sleep(context.Background(), 1)
		assert.False(t, s.Aborted() || s.InTask())
		s.Go("stops", func() { runtime.Goexit() })
		_ = s.Sleep(context.Background(), 1)
		assert.Fail(t, "goes on")
	}()
	<-done
	assert.True(t, s.Aborted())
	assert.NoError(t, s.Sleep(context.Background(), 1), "another goroutine may drive on")
	assert.NoError(t, s.Close())
}

func TestEnded(t *testing.T) {
	for _, err := range []error{ErrClosed, ErrAborted, &DeadlockError{}, &TimeLimitError{}, &LivelockError{}, &StuckError{}} {
		assert.True(t, Ended(err))
		assert.True(t, Ended(fmt.Errorf("in a call: %w", err)))
	}
	for _, err := range []error{nil, context.Canceled, ErrQueueClosed, errors.New("x")} {
		assert.False(t, Ended(err))
	}
}
