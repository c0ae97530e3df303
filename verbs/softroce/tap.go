package softroce

import (
	"time"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/sched"
)

// PacketInfo is what a Tap sees of a packet.
type PacketInfo struct {
	From, To    string // names of the devices
	Kind        string // SEND, SEND_INV, WRITE, READ_REQUEST, READ_RESPONSE, ACK or NAK; a direct wire carries no ACK
	PSN         uint32
	Payload     int // bytes
	First, Last bool
}

// Fate is what becomes of a packet. The zero value lets it go its way.
type Fate struct {
	Drop     bool          // it is lost before it reaches the wire
	Corrupt  bool          // it arrives with a wrong ICRC, and is dropped there
	NotReady bool          // first of a SEND: the receiver answers as if it had no receive posted
	Copies   int           // so many more are sent; at most 16
	Delay    time.Duration // it waits so long before the wire, and others pass it
}

// maxCopies bounds Fate.Copies.
const maxCopies = 16

// PacketKinds are the values of PacketInfo.Kind.
func PacketKinds() []string { return append([]string(nil), kindNames[:pkInvalid]...) }

// fate asks the taps about a packet.
func (n *Network) fate(p *packet) Fate {
	if n.tap != nil && !n.tap(p) {
		return Fate{Drop: true}
	}
	if n.cfg.Tap == nil {
		return Fate{}
	}
	return n.cfg.Tap(PacketInfo{
		From: p.from.dev.name, To: p.dst.dev.name, Kind: kindNames[p.kind], PSN: p.psn, Payload: int(p.n),
		First: p.flags&pfFirst != 0, Last: p.flags&pfLast != 0,
	})
}

func (n *Network) tapped() bool { return n.tap != nil || n.cfg.Tap != nil }

// divert gives each packet its fate, and returns those that go to the wire now.
func (n *Network) divert(ps []packet, pipe *link.Pipe) []packet {
	out := make([]packet, 0, len(ps))
	for i := range ps {
		p := ps[i]
		f := n.fate(&p)
		if f.Drop {
			continue
		}
		if f.Corrupt {
			p.flags |= pfBad
		}
		if f.NotReady {
			p.flags |= pfNotReady
		}
		for range 1 + min(max(f.Copies, 0), maxCopies) {
			if f.Delay > 0 {
				n.s.At(n.s.Now().Add(sched.FromStd(f.Delay)), &delayed{n.fly(&p), pipe})
			} else {
				out = append(out, p)
			}
		}
	}
	return out
}

// delayed is a packet that waits before the wire.
type delayed struct {
	f    *flying
	pipe *link.Pipe // nil: direct
}

// Fire sends it.
func (d *delayed) Fire() {
	if d.pipe == nil {
		d.f.Fire()
		return
	}
	d.pipe.Send(d.f.p[0].size(), d.f)
}
