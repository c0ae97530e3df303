package wire

import (
	"encoding/binary"

	"example.org/nfsrdma/verbs"
)

// stream is one direction of an iWARP connection.
type stream struct {
	next  uint32            // sequence number
	early map[uint32][]byte // segments that are ahead
	buf   []byte
	begun bool // the MPA frame that opens it is through
	e     event
	write bool // e is an RDMA WRITE that goes on
}

// tcp puts a stream together.
func (c *capture) tcp(p []byte, k qpKey) error {
	seq, head, flags := binary.BigEndian.Uint32(p[4:]), int(p[12]>>4)*4, p[13]
	if head > len(p) {
		return errPacket
	}
	const syn = 2
	if flags&syn != 0 {
		c.streams[k] = &stream{next: seq + 1, early: map[uint32][]byte{}}
		return nil
	}
	s := c.streams[k]
	if s == nil || len(p) == head {
		return nil
	}
	s.early[seq] = p[head:]
	for {
		b, ok := s.early[s.next]
		if !ok {
			return c.frames(s, k.client)
		}
		delete(s.early, s.next)
		s.buf = append(s.buf, b...)
		s.next += uint32(len(b))
	}
}

// frames takes MPA frames (RFC 5044): the one that opens the connection, then FPDUs without markers.
func (c *capture) frames(s *stream, client bool) error {
	const open = 20 // key, flags, revision, length of the private data
	if !s.begun {
		if len(s.buf) < open {
			return nil
		}
		n := int(binary.BigEndian.Uint16(s.buf[18:]))
		if len(s.buf) < open+n {
			return nil
		}
		c.mpaOpen(s.buf[17], s.buf[open:open+n], client)
		s.buf, s.begun = s.buf[open+n:], true
	}
	for len(s.buf) >= 2 {
		n := int(binary.BigEndian.Uint16(s.buf))
		total := (2+n+3)&^3 + 4 // pad and CRC
		if len(s.buf) < total {
			break
		}
		if err := c.ddp(s, s.buf[2:2+n], client); err != nil {
			return err
		}
		s.buf = s.buf[total:]
	}
	return nil
}

// mpaOpen takes private data; revision 2 puts IRD and ORD before them (RFC 6581).
func (c *capture) mpaOpen(rev byte, private []byte, client bool) {
	var p verbs.ConnParam
	if rev == 2 && len(private) >= 4 {
		p.IRD = int(binary.BigEndian.Uint16(private) & 0x3fff)
		p.ORD = int(binary.BigEndian.Uint16(private[2:]) & 0x3fff)
		private = private[4:]
	}
	p.PrivateData = private
	switch {
	case client:
		c.connects = append(c.connects, connect{req: p})
	case len(c.connects) > 0:
		c.connects[len(c.connects)-1].rep = p
	}
}

// ddp takes a DDP segment (RFC 5041) with its RDMAP opcode (RFC 5040).
func (c *capture) ddp(s *stream, p []byte, client bool) error {
	const (
		tagged, last                           = 0x80, 0x40
		rdmaWrite, rdmaRead, readResp, sendInv = 0, 1, 2, 4
		sendSEInv                              = 6
		taggedLen, untaggedLen                 = 14, 18
	)
	if len(p) < taggedLen || p[0]&tagged == 0 && len(p) < untaggedLen {
		return errPacket
	}
	ctrl, op := p[0], p[1]&15
	if ctrl&tagged != 0 {
		if op != rdmaWrite {
			return nil
		}
		if !s.write {
			s.e = event{client: client, op: verbs.OpRDMAWrite, key: binary.BigEndian.Uint32(p[2:]), addr: binary.BigEndian.Uint64(p[6:])}
			s.write = true
		}
		s.e.data = append(s.e.data, p[taggedLen:]...)
		if ctrl&last != 0 {
			s.write = false
			c.done(&s.e)
		}
		return nil
	}
	body := p[untaggedLen:]
	switch op {
	case rdmaRead:
		if len(body) < 28 {
			return errPacket
		}
		// SinkSTag | SinkTO(64) | size | SrcSTag | SrcTO(64)
		e := event{client: client, op: verbs.OpRDMARead, n: int(binary.BigEndian.Uint32(body[12:])),
			key: binary.BigEndian.Uint32(body[16:]), addr: binary.BigEndian.Uint64(body[20:])}
		c.done(&e)
	case 3, sendInv, 5, sendSEInv:
		if binary.BigEndian.Uint32(p[14:]) == 0 { // offset in the message
			s.e = event{client: client, op: verbs.OpSend}
			if op == sendInv || op == sendSEInv {
				s.e.op, s.e.key = verbs.OpSendWithInv, binary.BigEndian.Uint32(p[2:])
			}
		}
		s.e.data = append(s.e.data, body...)
		if ctrl&last != 0 {
			c.done(&s.e)
		}
	}
	return nil
}
