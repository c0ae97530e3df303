package scenarios

import "example.org/nfsrdma/internal/tcpsim"

// The model of the splice scenario: pages of a pipe are handed to a loopback connection one by one.
const (
	splicePipe    = 256 << 10 // bytes of the pipe
	spliceTotal   = 1 << 30   // length given to splice
	spliceStream  = 32 << 20  // bytes that a run really sends
	spliceStalled = 4 << 20   // likewise, where each segment waits for a delayed acknowledgement
	spliceMTU     = 16436     // of loopback
	spliceMTU64   = 65536
	spliceSmall   = 60 << 10 // a send buffer below one segment at MTU 65536

	splicePage        = 500_000   // ps
	splicePush        = 300_000   // ps
	spliceSegment     = 1_300_000 // ps
	spliceReadSegment = 500_000   // ps
	spliceReadByte    = 250       // ps
)

var spliceConstants = []Constant{
	{"pipe", splicePipe, "B", Reported},
	{"length given to splice", spliceTotal, "B", Reported},
	{"MTU of loopback", spliceMTU, "B", KernelSource},
	{"gso_max_size", 65536, "B", KernelSource},
	{"delayed acknowledgement, TCP_DELACK_MIN", 40, "ms", KernelSource},
	{"quick acknowledgements, TCP_MAX_QUICKACKS", 16, "segments", KernelSource},
	{"small send buffer", spliceSmall, "B", Assumed},
	{"send buffer otherwise", 1 << 20, "B", Assumed},
	{"window", 4 << 20, "B", Assumed},
	{"sender's time for a page", 0.5, "us", Assumed},
	{"sender's time for a push", 0.3, "us", Assumed},
	{"sender's time for a segment", 1.3, "us", Assumed},
	{"receiver's time for a segment", 0.5, "us", Assumed},
	{"receiver's copy", 0.25, "ns/B", Assumed},
	{"TCP_NODELAY", 1, "", Assumed},
}

// splicePolicy is a state of the kernel.
type splicePolicy struct {
	name string
	push tcpsim.Push
}

// A revert of the change of Linux 3.4 is what was before it.
var (
	splicePerPage = splicePolicy{"perpage", tcpsim.PerPage}
	spliceMsgMore = splicePolicy{"msgmore", tcpsim.MsgMore}
	spliceNotLast = splicePolicy{"notlast", tcpsim.NotLast}
	spliceRevert  = splicePolicy{"revert", tcpsim.PerPage}
	spliceFixed   = splicePolicy{"fixed", tcpsim.Fixed}
)
