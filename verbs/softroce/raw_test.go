package softroce

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// rawTo makes a raw peer of a, connected to b with MTU 256 and PSNs from 100 on.
func rawTo(p *pair) (*Raw, *[]RawPacket) {
	p.modifyReset(same)
	for _, a := range []verbs.QPAttr{{State: verbs.Reset}, {State: verbs.Init}} {
		if err := p.a.qp.Modify(a); err != nil {
			p.tb.Fatal(err)
		}
	}
	var seen []RawPacket
	r, err := NewRaw(p.a.qp, p.b.qp, func(w RawPacket) { seen = append(seen, w) })
	if err != nil {
		p.tb.Fatal(err)
	}
	return r, &seen
}

// The last packet of a message has data, and so has none that is not the only one.
func TestLastWithoutData(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	r, seen := rawTo(p)
	mtu := uint32(p.b.q().mtu)
	r.Send(RawPacket{Opcode: OpcWriteFirst, PSN: 100, VA: p.b.mr.Addr(), RKey: p.b.mr.RKey(), DMALen: mtu, Payload: make([]byte, mtu)},
		RawPacket{Opcode: OpcWriteLast, PSN: 101})
	p.settle(sched.Millisecond)
	if assert.Len(t, *seen, 1) {
		assert.EqualValues(t, SynNak+1, (*seen)[0].Syndrome)
		assert.EqualValues(t, 101, (*seen)[0].PSN)
	}
}

// What a READ asked for is sent before the NAK of what came after it, else the READ is asked for again.
func TestReadDataBeforeNAK(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	r, seen := rawTo(p)
	r.Send(RawPacket{Opcode: OpcReadRequest, PSN: 100, VA: p.b.mr.Addr(), RKey: p.b.mr.RKey(), DMALen: 10},
		RawPacket{Opcode: OpcWriteOnly, PSN: 105})
	p.settle(sched.Millisecond)
	if assert.Len(t, *seen, 2) {
		assert.EqualValues(t, OpcReadOnly, (*seen)[0].Opcode)
		assert.EqualValues(t, SynNak, (*seen)[1].Syndrome)
		assert.EqualValues(t, 101, (*seen)[1].PSN)
	}
}

// READ data begins with a first packet, and goes on with others.
func TestReadDataOfWrongOpcode(t *testing.T) {
	for name, ops := range map[string][]uint8{
		"middle at first":  {OpcReadMiddle},
		"first twice":      {OpcReadFirst, OpcReadFirst},
		"last for an only": {OpcReadLast},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRawPair(t, same)
			defer p.close()
			r, _ := rawTo(p)
			mtu := int(p.b.q().mtu)
			n := 3 * mtu
			if ops[0] == OpcReadLast {
				n = mtu
			}
			wr := p.b.read(&p.a, 1, 0, n, 0)
			p.post(&p.b, wr)
			for i, op := range ops {
				r.Send(RawPacket{Opcode: op, PSN: 100 + uint32(i), Payload: make([]byte, mtu)})
			}
			p.want(&p.b, 1, verbs.OpRDMARead, verbs.BadRespErr)
		})
	}
}

// What belongs to no request of the connection is dropped: wrong headers, reserved syndromes, other transports.
func TestRawDrops(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	r, seen := rawTo(p)
	for _, w := range []RawPacket{
		{Opcode: OpcWriteOnly, PSN: 100, BadICRC: true}, {Opcode: OpcWriteOnly, PSN: 100, Cut: true},
		{Opcode: OpcWriteOnly, PSN: 100, DestQP: 1}, {Opcode: OpcWriteOnly, PSN: 100, PKey: 0x1234},
		{Opcode: OpcWriteOnly, PSN: 100, Payload: make([]byte, 3)}, {Opcode: 0x24, PSN: 100},
		{Opcode: OpcAck, PSN: 100, Syndrome: 0x40}, {Opcode: OpcAck, PSN: 100, Syndrome: SynNak + 4}, {Opcode: opcAtomicAck, PSN: 100},
	} {
		r.Send(w)
	}
	p.settle(sched.Millisecond)
	assert.Empty(t, *seen)
	r.Send(RawPacket{Opcode: 0x15, PSN: 100})
	p.settle(sched.Millisecond)
	if assert.Len(t, *seen, 1) {
		assert.EqualValues(t, SynNak+1, (*seen)[0].Syndrome)
	}
}

// A late copy of a READ whose memory was deregistered is no fault of the connection.
func TestRepeatedReadOfMemoryThatIsGone(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	r, seen := rawTo(p)
	mr, err := p.b.pd.AllocMR(100, verbs.RemoteRead)
	require.NoError(t, err)
	read := RawPacket{Opcode: OpcReadRequest, PSN: 100, VA: mr.Addr(), RKey: mr.RKey(), DMALen: 10}
	for range 2 {
		r.Send(read)
	}
	p.settle(sched.Millisecond)
	assert.Len(t, *seen, 2, "asked twice, answered twice")
	require.NoError(t, mr.Close())
	r.Send(read)
	p.settle(sched.Millisecond)
	assert.Len(t, *seen, 2)
	assert.Equal(t, verbs.RTS, p.b.qp.Query().State)
	read.PSN++
	r.Send(read)
	p.settle(sched.Millisecond)
	if assert.Len(t, *seen, 3) {
		assert.EqualValues(t, SynNak+2, (*seen)[2].Syndrome)
	}
}

// An RNR NAK that may not be retried does not complete the READ before it, whose data has not come.
func TestLastRNRNAKPassesReadData(t *testing.T) {
	p := newRawPair(t, same)
	defer p.close()
	r, _ := rawTo(p)
	q := p.b.q()
	q.attr.RNRRetry, q.rnrRetries = 0, 0
	p.post(&p.b, p.b.read(&p.a, 1, 0, 8, 0))
	p.post(&p.b, p.b.send(2, 0, 8))
	r.Send(RawPacket{Opcode: OpcAck, PSN: 101, Syndrome: SynRNR | 1})
	p.none(&p.b)
	r.Send(RawPacket{Opcode: OpcReadOnly, PSN: 100, Payload: []byte("12345678")})
	p.want(&p.b, 1, verbs.OpRDMARead, verbs.Success)
	p.want(&p.b, 2, verbs.OpSend, verbs.RNRRetryExcErr)
	assert.Equal(t, "12345678", string(p.b.mr.Bytes()[:8]))
}
