package nfsclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Who pays for soft interrupts follows from the locks and the priority.
func TestCPUCost(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		locks     BHLocks
		pri       bool
		irq, wake int64 // us
	}{{BHAll, false, 30, 5}, {BHAll, true, 30, 5}, {BHWaitQueues, false, 0, 5}, {BHNone, false, 0, 155}, {BHNone, true, 0, 5}} {
		w := CPUCost{SoftIRQ: 30 * us, Wake: 5 * us, Held: 150 * us, BHLocks: c.locks, HighPri: c.pri}.work()
		assert.EqualValues(t, c.irq, w.SoftIRQ/sched.Microsecond, "%v %v", c.locks, c.pri)
		assert.EqualValues(t, c.wake, w.Wake/sched.Microsecond, "%v %v", c.locks, c.pri)
	}
	assert.Zero(t, CPUCost{}.work())
	cfg := Config{Proto: TCP, Addr: "x:1", CPUCost: CPUCost{Wake: -1}}
	assert.ErrorIs(t, cfg.setDefaults(), verbs.ErrInvalid)
}
