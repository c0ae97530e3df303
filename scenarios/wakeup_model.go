package scenarios

import (
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
)

// The model of the wakeup scenario: N jobs, each with one READ at a time, C of which have a credit. A READ's way is
// the wire, the server, the soft interrupts that its reply waits for, and the worker that gives its credit on.
const (
	wakeupCores   = 12
	wakeupIODepth = 1024
	wakeupJobs    = wakeupCores * wakeupIODepth
	wakeupSize    = 4096
	wakeupCredits = 128
	wakeupServer  = 745 * time.Microsecond
	wakeupSpread  = 0.3
	wakeupSoftIRQ = 30 * time.Microsecond
	wakeupWake    = 5 * time.Microsecond
	wakeupHeld    = 332 * time.Microsecond
	wakeupNfsd    = 256
	wakeupShort   = 12 * 128 // jobs of the cells that are not the report's own
	wakeupTCPJobs = 1024
	wakeupTCPNfsd = 128
)

// wakeupIB is 4X FDR InfiniBand: 56 Gb/s signalled, 54.5 Gb/s of data after 64b/66b.
var wakeupIB = fabric.Link{Name: "IBFDR", BitsPerSecond: 54_545_000_000, MTU: 4096, Overhead: 26, Delay: time.Microsecond}

// wakeupIPoIB is TCP on the same wire: IP packets of the connected mode's MTU.
var wakeupIPoIB = fabric.Link{Name: "IPoIB", BitsPerSecond: 54_545_000_000, MTU: 65520 - 52, Overhead: 52 + 30, Delay: 5 * time.Microsecond}

// What the second machine differs in.
const (
	wakeupRoCEJobs   = 8 * wakeupIODepth
	wakeupRoCEServer = 376 * time.Microsecond
)

var wakeupConstants = []Constant{
	{"client cores", wakeupCores, "", Reported},
	{"iodepth", wakeupIODepth, "", Reported},
	{"jobs, each with an iodepth", wakeupCores, "", Assumed},
	{"READ", wakeupSize, "B", Reported},
	{"rdma_slot_table_entries", wakeupCredits, "", KernelSource},
	{"server, a READ", 745, "us", Fitted("execute of 75 ms, stock")},
	{"spread of a READ, uniform", wakeupSpread, "", Assumed},
	{"soft interrupts that a bottom-half unlock runs", 30, "us", Reported},
	{"queue_work to its worker", 5, "us", Assumed},
	{"longer, where soft interrupts hold the worker up; who comes meanwhile waits less", 332, "us", Fitted("execute of 87 ms, five patches")},
	{"nfsd threads", wakeupNfsd, "", Assumed},
	{"one-way delay", 1, "us", Assumed},
	{"server of the RoCE machine, a READ", 376, "us", Assumed},
	{"nfsd threads over TCP", wakeupTCPNfsd, "", Assumed},
}

// wakeupState is a state of the RPC client.
type wakeupState struct {
	name  string
	locks nfsclient.BHLocks
	high  bool // WQ_HIGHPRI
}

var (
	wakeupStock = wakeupState{"stock", nfsclient.BHAll, false}
	wakeupFour  = wakeupState{"four", nfsclient.BHWaitQueues, false}
	wakeupFive  = wakeupState{"five", nfsclient.BHNone, false}
	wakeupHigh  = wakeupState{"five+highpri", nfsclient.BHNone, true}
)
