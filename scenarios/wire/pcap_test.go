package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"example.org/nfsrdma/verbs"
)

// capture is what a packet capture has of RDMA: RoCEv2 (UDP 4791) or iWARP (TCP 20049).
type capture struct {
	events   []event
	connects []connect
	client   [4]byte // IPv4 address of who connects
	qps      map[qpKey]*partial
	streams  map[qpKey]*stream
}

// qpKey is a direction of a connection.
type qpKey struct {
	client bool
	id     uint32 // destination QPN, or the client's port
}

// partial is a message that is being received.
type partial struct {
	e    event
	seen map[uint32]bool // PSNs: a packet may be repeated
}

const (
	roceUDPPort = 4791
	nfsTCPPort  = 20049
)

var errPacket = errors.New("capture: bad packet")

// readCapture reads a pcap file of Ethernet frames.
func readCapture(name string, client [4]byte) (*capture, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(b) < 24 || binary.LittleEndian.Uint32(b) != 0xa1b2c3d4 || b[20] != 1 {
		return nil, fmt.Errorf("%s is no little-endian pcap file of Ethernet", name)
	}
	c := &capture{client: client, qps: map[qpKey]*partial{}, streams: map[qpKey]*stream{}}
	for n, p := 1, b[24:]; len(p) >= 16; n++ {
		size := int(binary.LittleEndian.Uint32(p[8:]))
		if size > len(p)-16 {
			return nil, fmt.Errorf("%s: packet %d is cut", name, n)
		}
		if err := c.ethernet(p[16 : 16+size]); err != nil {
			return nil, fmt.Errorf("%s: packet %d: %w", name, n, err)
		}
		p = p[16+size:]
	}
	return c, nil
}

func (c *capture) ethernet(p []byte) error {
	if len(p) < 14+20 || binary.BigEndian.Uint16(p[12:]) != 0x0800 {
		return nil
	}
	p = p[14:]
	head, total := int(p[0]&15)*4, int(binary.BigEndian.Uint16(p[2:]))
	if total > len(p) || head+8 > total {
		return errPacket
	}
	fromClient := [4]byte(p[12:16]) == c.client
	proto, p := p[9], p[head:total]
	switch src, dst := binary.BigEndian.Uint16(p), binary.BigEndian.Uint16(p[2:]); {
	case proto == 17 && dst == roceUDPPort:
		return c.roce(p[8:], fromClient)
	case proto == 6 && len(p) >= 20 && (src == nfsTCPPort || dst == nfsTCPPort):
		port := src
		if !fromClient {
			port = dst
		}
		return c.tcp(p, qpKey{fromClient, uint32(port)})
	}
	return nil
}

// Opcodes of BTH (IB specification table 38), reliable connections, and the one of connection management.
const (
	sendFirst, sendMiddle, sendLast, sendOnly     = 0, 1, 2, 4
	writeFirst, writeMiddle, writeLast, writeOnly = 6, 7, 8, 10
	readRequest                                   = 12
	sendLastInv, sendOnlyInv                      = 22, 23
	udSendOnly                                    = 100
)

// roce takes BTH | [DETH, RETH or IETH] | payload | pad | ICRC.
func (c *capture) roce(p []byte, client bool) error {
	if len(p) < 12+4 {
		return errPacket
	}
	op, pad := p[0], int(p[1]>>4&3)
	k := qpKey{client, binary.BigEndian.Uint32(p[4:]) & 0xffffff}
	psn := binary.BigEndian.Uint32(p[8:]) & 0xffffff
	p = p[12 : len(p)-4]
	if op == udSendOnly {
		return c.mad(p, client)
	}
	q := c.qps[k]
	if q == nil {
		q = &partial{seen: map[uint32]bool{}}
		c.qps[k] = q
	}
	take := func(n int) []byte {
		if n > len(p) {
			n = len(p)
		}
		h := p[:n]
		p = p[n:]
		return h
	}
	e := event{client: client, op: verbs.OpSend}
	first, last := false, false
	switch op {
	case sendFirst:
		first = true
	case sendMiddle, writeMiddle:
	case sendLast, writeLast, sendLastInv:
		last = true
	case sendOnly, sendOnlyInv:
		first, last = true, true
	case writeFirst:
		first, e.op = true, verbs.OpRDMAWrite
	case writeOnly:
		first, last, e.op = true, true, verbs.OpRDMAWrite
	case readRequest:
		first, last, e.op = true, true, verbs.OpRDMARead
	default:
		return nil // responses
	}
	if q.seen[psn] {
		return nil
	}
	q.seen[psn] = true
	if e.op != verbs.OpSend {
		h := take(16)
		if len(h) < 16 {
			return errPacket
		}
		e.addr, e.key, e.n = binary.BigEndian.Uint64(h), binary.BigEndian.Uint32(h[8:]), int(binary.BigEndian.Uint32(h[12:]))
	}
	if first {
		q.e = e
	}
	if op == sendLastInv || op == sendOnlyInv {
		h := take(4)
		if len(h) < 4 {
			return errPacket
		}
		q.e.op, q.e.key = verbs.OpSendWithInv, binary.BigEndian.Uint32(h)
	}
	if pad > len(p) {
		return errPacket
	}
	if q.e.op != verbs.OpRDMARead {
		q.e.data = append(q.e.data, p[:len(p)-pad]...)
	}
	if last {
		c.done(&q.e)
	}
	return nil
}

func (c *capture) done(e *event) {
	if e.op != verbs.OpRDMARead {
		e.n = len(e.data)
	}
	c.events = append(c.events, *e)
}

// Attributes of the connection manager's datagrams (IB specification table 98), and where they begin.
const (
	cmREQ, cmREP = 0x10, 0x13
	dethLen      = 8
	madLen       = 24
	ipCMLen      = 36 // RDMA IP CM service header, before the private data of a REQ
)

// mad takes REQ and REP of the connection manager.
func (c *capture) mad(p []byte, client bool) error {
	if len(p) < dethLen+256 {
		return errPacket
	}
	p = p[dethLen:]
	const cmClass = 7
	attr := binary.BigEndian.Uint16(p[16:])
	m := p[madLen:]
	switch {
	case p[1] != cmClass:
	case attr == cmREQ && client:
		private := m[140+ipCMLen:]
		c.connects = append(c.connects, connect{req: verbs.ConnParam{
			PrivateData: private, IRD: int(m[35]), ORD: int(m[39]), RetryCnt: m[47] & 7, RNRRetry: m[50] & 7,
		}})
	case attr == cmREP && !client && len(c.connects) > 0:
		c.connects[len(c.connects)-1].rep = verbs.ConnParam{PrivateData: m[36:], IRD: int(m[24]), ORD: int(m[25]), RNRRetry: m[27] >> 5}
	}
	return nil
}
