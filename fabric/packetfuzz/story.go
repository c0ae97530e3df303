package packetfuzz

import (
	"fmt"

	"example.org/nfsrdma/verbs/softroce"
)

var opNames = map[uint8]string{
	0: "SEND first", 1: "SEND middle", 2: "SEND last", 3: "SEND last imm", 4: "SEND only", 5: "SEND only imm",
	6: "WRITE first", 7: "WRITE middle", 8: "WRITE last", 9: "WRITE last imm", 10: "WRITE only", 11: "WRITE only imm",
	12: "READ request", 13: "READ first", 14: "READ middle", 15: "READ last", 16: "READ only", 17: "ACK",
	0x12: "ATOMIC ACK", 0x13: "CmpSwap", 0x14: "FetchAdd", 0x16: "SEND last inv", 0x17: "SEND only inv",
}

// Format is a packet as one line.
func Format(p *softroce.RawPacket) string {
	name := opNames[p.Opcode]
	if name == "" {
		name = fmt.Sprintf("opcode %#x", p.Opcode)
	}
	s := fmt.Sprintf("%s psn %d", name, p.PSN)
	switch {
	case p.Opcode == softroce.OpcAck:
		s = fmt.Sprintf("%s psn %d", synName(p.Syndrome), p.PSN)
	case p.Opcode == 6 || p.Opcode >= 10 && p.Opcode <= 12:
		s += fmt.Sprintf(" va %#x rkey %#x dlen %d", p.VA, p.RKey, p.DMALen)
	}
	if p.Imm != 0 {
		s += fmt.Sprintf(" imm %#x", p.Imm)
	}
	if len(p.Payload) > 0 {
		s += fmt.Sprintf(" payload %d", len(p.Payload))
	}
	if p.Pad != 0 {
		s += fmt.Sprintf(" pad %d", p.Pad)
	}
	if p.DestQP != 0 {
		s += fmt.Sprintf(" to queue pair %d", p.DestQP)
	}
	if p.PKey != 0 {
		s += fmt.Sprintf(" P_Key %#x", p.PKey)
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{p.AckReq, " ack"}, {p.Solicited, " solicited"}, {p.BadICRC, " bad ICRC"}, {p.Cut, " cut"}} {
		if f.on {
			s += f.name
		}
	}
	return s
}

func synName(s uint8) string {
	switch {
	case s < 0x20:
		return "ACK"
	case s&0xe0 == softroce.SynRNR:
		return fmt.Sprintf("RNR NAK timer %d", s&0x1f)
	case s&0xe0 == softroce.SynNak && s&0x1f < 5:
		return "NAK " + [...]string{"PSN sequence error", "invalid request", "remote access error", "remote operational error", "invalid RD request"}[s&0x1f]
	}
	return fmt.Sprintf("syndrome %#x", s)
}

func (a answer) String() string {
	if a.syn == nil {
		return fmt.Sprintf("%s psn %d of %d bytes", opNames[a.op], a.psn, len(a.data))
	}
	s := ""
	for i, x := range a.syn {
		if i > 0 {
			s += " or "
		}
		s += synName(x)
	}
	return fmt.Sprintf("%s psn %d", s, a.psn)
}
