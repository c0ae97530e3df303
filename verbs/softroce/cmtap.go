package softroce

import (
	"time"

	"example.org/nfsrdma/internal/sched"
)

// Messages of connection management, in NetConfig.CMTap.
const (
	cmREQ  = "REQ"
	cmREP  = "REP"
	cmRTU  = "RTU"
	cmREJ  = "REJ"
	cmDREQ = "DREQ"
)

// CMKinds are the values of PacketInfo.Kind that a CMTap sees.
func CMKinds() []string { return []string{cmREQ, cmREP, cmRTU, cmREJ, cmDREQ} }

// A message that is lost is sent again as rdma_cm does, which sets a response time of 4.096 us * 2^20
// (CMA_CM_RESPONSE_TIMEOUT) and 15 retries (CMA_MAX_CM_RETRIES).
const (
	cmTimeout = 4096 * time.Nanosecond << 20
	cmRetries = 15
)

// cmSend takes a message of connection management from one device to another; arrive is its arrival. Duplicates must
// do nothing. lost, if not nil, is called when all its transmissions were lost.
func (n *Network) cmSend(kind string, from, to *Device, arrive, lost func()) {
	if n.cfg.CMTap == nil {
		n.after(from, to, 0, arrive)
		return
	}
	n.cmTry(kind, from, to, arrive, lost, 0)
}

func (n *Network) cmTry(kind string, from, to *Device, arrive, lost func(), try int) {
	f := n.cfg.CMTap(PacketInfo{From: from.name, To: to.name, Kind: kind, First: true, Last: true})
	if f.Drop || f.Corrupt { // the receiver drops a datagram with a wrong CRC
		n.s.At(n.s.Now().Add(sched.FromStd(cmTimeout)), &cmMessage{func() {
			switch {
			case try < cmRetries:
				n.cmTry(kind, from, to, arrive, lost, try+1)
			case lost != nil:
				lost()
			}
		}})
		return
	}
	for range 1 + min(max(f.Copies, 0), maxCopies) {
		n.after(from, to, f.Delay, arrive)
	}
}
