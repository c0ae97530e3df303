// Package verbstest says whether an implementation of verbs.Device behaves as the
// InfiniBand and iWARP specifications and libibverbs say: statuses, rights,
// bounds, keys, order, flushing, receiver-not-ready, READ depths, connections.
//
// # Use
//
// The author of a device writes one test:
//
//	func TestConformance(t *testing.T) {
//		verbstest.Run(t, func(t *testing.T) *verbstest.Env {
//			d := mydevice.Open("mydev0")
//			t.Cleanup(func() { assert.NoError(t, d.Close()) })
//			port := 18000
//			return &verbstest.Env{
//				Client: d, Server: d,
//				ServerAddr: func() string { port++; return fmt.Sprint("192.168.7.1:", port) },
//			}
//		})
//	}
//
// Each check is a subtest in an environment of its own, such as
// TestConformance/rights/write-without-remote-write. Devices may be opened once and
// handed out again: a check closes all that it made, and fails if the devices' Resources are not
// what they were before. It does need the devices for itself: asynchronous events,
// counters and resources are the device's.
//
// # What is asked
//
// Statuses are asserted exactly, as hardware gives them, but for those of Env.Statuses; where hardware and
// libraries differ (a bad bind may be refused when it is posted or complete with an
// error) a check takes both. What the capabilities promise must work; what they do
// not promise must be refused with an error that matches ErrUnsupported. A status
// of the responder reaches the requester in InfiniBand only: with iWARP, a check
// asks that the data did not land and that the responder's queue pair is in ERR.
//
// Each region has guard bytes on both sides that are looked at when the check ends.
//
// Checks lists the suite; the name of a check says its theme and what it asks.
//
// # What may be missing
//
// A check is skipped only for want of a capability, a limit or a field of the Env,
// and names it (Check.Needs), or of immediate data on iWARP; or because Env.Deviations says that the device is known
// to fail it, and why. ErrUnsupported of what
// every device has is a failure that names the verb: AllocPD, RegMR, AllocMR, CreateCQ, Poll, Wait,
// Listen, Resolve, Connect, Accept, ID.CreateQP, PostRecv, and PostSend of SEND, RDMA WRITE and RDMA READ.
// Run fails where a theme that no device may lack, such as rights or cm, ran no check.
//
// # Time
//
// Checks wait only in verbs calls and in the scheduler of the Env, so that they
// run in virtual time too; without one they run on goroutines and the wall clock. A
// wait is given up after 20 seconds.
package verbstest
