package sched

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMeter(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	ctx := context.Background()
	sleep := func(d Duration) { require.NoError(t, s.Sleep(ctx, d)) }
	m := s.NewMeter(Usage{Name: "b", Level: 1, Units: 2})
	port := s.NewMeter(Usage{Name: "a", Level: 2, Units: 1})
	m.Take(1)
	sleep(3)
	m.Take(1)
	sleep(4)
	m.Give(1)
	m.Waited(5)
	sleep(10)
	m.Give(1)
	sleep(100)
	port.Use(7)
	port.Use(8) // of the same moment

	u := s.Usage()
	require.Len(t, u, 2)
	assert.Equal(t, Usage{Name: "b", Level: 1, Units: 2, Busy: 4, Held: 3 + 8 + 10, Waited: 5, Waits: 1}, u[0])
	assert.Equal(t, Usage{Name: "a", Level: 2, Units: 1, Busy: 0, Held: 0, Waits: 0}, u[1], "it lies ahead")
	sleep(10)
	port.Use(2) // waits for both
	sleep(100)
	assert.Equal(t, Usage{Name: "a", Level: 2, Units: 1, Busy: 17, Held: 17, Waited: 5, Waits: 1}, s.Usage()[1])

	m.Close()
	again := s.NewMeter(Usage{Name: "b", Level: 1, Units: 2})
	again.Take(2)
	sleep(6)
	d := s.Usage()[0].Sub(u[0])
	assert.Equal(t, 2, d.Units)
	assert.Equal(t, Duration(6), d.Busy, "of one name, one after the other")
	assert.Equal(t, Duration(12), d.Held)
}

func TestSemMeter(t *testing.T) {
	s := NewVirtual(1)
	defer s.Close()
	ctx := context.Background()
	sem := s.NewSem("a credit", 2).Measure(Usage{Name: "credits"})
	for range 3 {
		s.Go("holder", func() {
			assert.NoError(t, sem.Acquire(ctx, 1))
			assert.NoError(t, s.Sleep(ctx, 10))
			sem.Release(1)
		})
	}
	require.NoError(t, s.Sleep(ctx, 100))
	assert.Equal(t, []Usage{{Name: "credits", Units: 2, Busy: 10, Held: 30, Waited: 10, Waits: 1}}, s.Usage())
	sem.Release(2) // a larger window
	require.True(t, sem.TryAcquire(4))
	require.NoError(t, s.Sleep(ctx, 5))
	assert.Equal(t, Duration(15), s.Usage()[0].Busy)
}

func TestMeterLive(t *testing.T) {
	s := NewLive(1)
	defer s.Close()
	m := s.NewMeter(Usage{Name: "x", Units: 1})
	m.Take(1)
	m.Use(3)
	m.Waited(2)
	m.Give(1)
	m.Close()
	assert.Empty(t, s.Usage())
}
