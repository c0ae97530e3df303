package verbstest

import (
	"fmt"
	"slices"
	"testing"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Env is what the suite needs of the devices under test.
type Env struct {
	// Client opens connections to Server. Both may be one device.
	Client, Server verbs.Device
	// ServerAddr gives an address, "host:port", by which Client reaches Server:
	// another free port at each call.
	ServerAddr func() string
	// UnknownAddr is an address that Client cannot reach; "" skips the check of it.
	UnknownAddr string
	// DeviceAddr is a device's QPAttr.DestAddr. Nil skips the checks of queue pairs
	// that no connection manager drives.
	DeviceAddr func(verbs.Device) string
	// Statuses are those that the devices are known to give where the specification has
	// another, which is the key: nothing else of a check is affected.
	Statuses map[verbs.Status]verbs.Status
	// Deviations are the checks, by name, that a device is known to fail, and why: they are skipped.
	Deviations map[string]string
	// Sched runs the checks' tasks. Nil: goroutines and the wall clock.
	Sched *sched.Sched
}

// Check is one property that every device has.
type Check struct {
	// Name is theme/property.
	Name string
	// Needs says what the devices must be capable of; else the check is skipped.
	Needs []Need
	Run   func(*T)
}

// Need is a condition on the devices.
type Need struct {
	What  string // "type 2B windows"
	Holds func(e *Env) bool
}

// TB is what a check needs of *testing.T.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	FailNow()
	Skipf(format string, args ...any)
	Failed() bool
}

// Checks is the whole suite.
func Checks() []Check {
	var all []Check
	for _, theme := range [][]Check{
		attrChecks, pdChecks, rightsChecks, qpRightsChecks, boundsChecks, staleChecks,
		fastRegChecks, fastRegKeyChecks, window1Checks, window2Checks, fmrChecks, dmaChecks,
		sendChecks, immChecks, rdmaChecks, orderChecks, signalChecks,
		cqChecks, srqChecks, rnrChecks, readDepthChecks, stateChecks, flushChecks,
		cmChecks, cmEndChecks, busyChecks, concurrentChecks, integrityChecks,
	} {
		all = append(all, theme...)
	}
	return all
}

// Run runs each check as a subtest in an environment of its own. newEnv
// registers what ends it with t.Cleanup, and may call t.Parallel where its devices are new.
// Run fails where a theme that no device may lack ran no check: a test whose device is not there
// skips before Run, not in newEnv.
func Run(t *testing.T, newEnv func(t *testing.T) *Env) {
	t.Helper()
	y := newTally(Checks())
	t.Cleanup(func() { y.judge(t) }) // parallel subtests have ended then
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			defer func() { y.done(c, t.Skipped()) }()
			e := newEnv(t)
			for name := range e.Deviations {
				if !slices.ContainsFunc(Checks(), func(c Check) bool { return c.Name == name }) {
					t.Errorf("Env.Deviations has %q, which is no check", name)
				}
			}
			RunCheck(t, c, e)
		})
	}
}

// RunCheck runs one check, closes what it made, and compares the devices'
// Resources with those at the start.
func RunCheck(tb TB, c Check, e *Env) {
	tb.Helper()
	for _, n := range c.Needs {
		if !n.Holds(e) {
			tb.Skipf("%s needs %s", c.Name, n.What)
			return
		}
	}
	if why := e.Deviations[c.Name]; why != "" {
		tb.Skipf("%s: the device deviates: %s", c.Name, why)
		return
	}
	if e.Sched == nil {
		live := *e
		live.Sched = sched.NewLive(1)
		e = &live
		defer func() {
			if err := live.Sched.Close(); err != nil {
				tb.Errorf("%v", err)
			}
		}()
	}
	t := newT(tb, e)
	defer t.end()
	c.Run(t)
	t.finished = true
}

func needCap(what string, caps verbs.Cap) Need {
	return Need{what, func(e *Env) bool {
		return e.Client.Attr().Caps&caps == caps && e.Server.Attr().Caps&caps == caps
	}}
}

func needTransport(not verbs.Transport, why string) Need {
	return Need{fmt.Sprintf("a transport other than %v: %s", not, why), func(e *Env) bool {
		return e.Client.Attr().Transport != not && e.Server.Attr().Transport != not
	}}
}

// What several themes need.
var (
	needFastReg  = needCap("memory management extensions", verbs.CapMemMgtExtensions)
	needSendInv  = needCap("SEND_WITH_INV", verbs.CapSendWithInv)
	needWindow1  = needCap("type 1 windows", verbs.CapMemWindow1)
	needWindow2  = needCap("type 2B windows", verbs.CapMemWindow2B)
	needGlobal   = needCap("a global key", verbs.CapGlobalKey)
	needDMAKey   = needCap("a local DMA key", verbs.CapLocalDMAKey)
	needLocalInv = Need{"LOCAL_INV", func(e *Env) bool {
		return needFastReg.Holds(e) || needWindow2.Holds(e)
	}}
	needRNR    = needCap("RNR flow control", verbs.CapRNR)
	needAcked  = needTransport(verbs.IWARP, "its completions do not tell of the responder")
	needRawQP  = Need{"queue pairs driven by Modify", func(e *Env) bool { return e.DeviceAddr != nil }}
	needSRQ    = Need{"shared receive queues", func(e *Env) bool { return e.Server.Attr().MaxSRQ > 0 }}
	needInline = Need{"inline sends", func(e *Env) bool { return e.Client.Attr().MaxInline > 0 }}
)
