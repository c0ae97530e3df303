package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"example.org/nfsrdma/internal/sched"
)

const us = sched.Microsecond

// 8 Gb/s: a byte takes a nanosecond.
func TestArrivalTimes(t *testing.T) {
	w := newWorld(t, 1, Config{BitsPerSecond: 8e9, Delay: 5 * time.Microsecond, Overhead: 100})
	w.send(0, 900)
	w.send(1, 1900)
	w.send(2, 0)
	w.runTo(20 * us)
	w.send(3, 900) // the port is idle
	w.runTo(40 * us)
	assert.Equal(t, []arrival{
		{0, false, sched.Time(6 * us)},
		{1, false, sched.Time(8 * us)},
		{2, false, sched.Time(8*us + 100*sched.Nanosecond)},
		{3, false, sched.Time(26 * us)},
	}, w.arrived)
	assert.Equal(t, Stats{Packets: 4, Bytes: 3700, WireBytes: 4100, Busy: 4100 * sched.Nanosecond}, w.p.Stats())
}
