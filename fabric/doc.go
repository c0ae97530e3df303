// Package fabric joins an embedded NFSv3 client and server through an RDMA verbs
// device in one test binary, so that a Go test can turn every knob of NFS/RDMA and assert
// throughput and data.
//
//	func TestSegments(t *testing.T) {
//		f := fabric.New(t, fabric.Params{
//			MaxDataSegs: 16, IRD: 16, ORD: 16, RegMode: nfsclient.AllPhysical, Link: &fabric.IBSDR,
//		})
//		m := f.Mount(t, "/")
//		m.WriteFile(t, "a", want)
//		got := f.Run(t, fabric.Load{Op: fabric.Write, Size: 64 << 10, Depth: 16, Bytes: 64 << 20})
//		got.WantThroughput(t, fabric.AtLeast(900*fabric.MBps))
//		got.Client.Want(t, "read_chunk_count=16384 nomsg_call_count=0")
//	}
//
// # Time
//
// By default time is virtual: it stands still while code runs and jumps to the next event, so
// that throughput is a property of the modelled link, queues, locks and storage, equal on every
// machine, and one seed gives one trace. A call from the test's own goroutine drives
// the time; Fabric.Go starts tasks beside it. In virtual time only that goroutine and
// these tasks may use the fabric, and they wait with Fabric.Sleep, Fabric.WithTimeout
// and the calls themselves, not with channels or package time. With
// Params.Live tasks are goroutines on the wall clock; then expectations of time only log.
//
// # What is checked without being asked
//
// When the fabric closes: no task, memory region, DMA mapping, queue or lent page is left. A
// virtual deadlock is an error that says what each task waits for. A failed test logs its
// seed and the command that runs it again, and with NFSRDMA_TRACE=1 the last messages. Of Params.Faults, each has
// fired that is not Optional.
//
// # Chaos
//
// Chaos mixes faults at random under a load, and compares what is read and stored with what was acknowledged.
package fabric
