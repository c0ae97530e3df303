package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// noter is a test to be looked at.
type noter struct {
	testing.TB
	errors int
}

func (n *noter) Helper()               {}
func (n *noter) Errorf(string, ...any) { n.errors++ }

// The comparison finds what differs, what is listed with other values, and what is listed and not there.
func TestComparisonFinds(t *testing.T) {
	all := func(string, string) bool { return true }
	linux := description{{"a", "1"}, {"b", "2"}}
	listed := []difference{{"case", "b", "2", "3", "because"}}
	for _, c := range []struct {
		name   string
		ours   description
		listed []difference
		want   int
	}{
		{"equal", linux, nil, 0},
		{"another value", description{{"a", "1"}, {"b", "3"}}, nil, 1},
		{"missing", description{{"a", "1"}}, nil, 1},
		{"more", description{{"a", "1"}, {"b", "2"}, {"c", ""}, {"d", "x"}}, nil, 1},
		{"listed", description{{"a", "1"}, {"b", "3"}}, listed, 0},
		{"listed, of another value", description{{"a", "1"}, {"b", "4"}}, listed, 2},
		{"listed, and equal", linux, listed, 1},
	} {
		n := &noter{TB: t}
		k := newKnown(t, c.listed, all)
		k.compare(n, "case", linux, c.ours)
		k.wantAllSeen(n)
		assert.Equal(t, c.want, n.errors, c.name)
	}
}

func TestTableIsAsWritten(t *testing.T) {
	b, err := os.ReadFile(tableFile)
	require.NoError(t, err)
	assert.Equal(t, tableHead+newTable(t).String(), string(b))
}

// What our side sends, put into a capture of either transport, is read from it again.
func TestCaptureRoundTrip(t *testing.T) {
	r := newRig(t, softroce.RoCE)
	session(t, r)
	want := r.rec.events
	for name, encode := range map[string]func([]event, connect) [][]byte{"RoCE": roceFrames, "iWARP": iwarpFrames} {
		var b bytes.Buffer
		b.Write(binary.LittleEndian.AppendUint32([]byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, 1))
		for _, f := range encode(want, r.rec.connects[0]) {
			b.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(make([]byte, 8), uint32(len(f))), uint32(len(f))))
			b.Write(f)
		}
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
		c, err := readCapture(path, testClient)
		require.NoError(t, err)
		require.Len(t, c.events, len(want), name)
		for i := range want {
			require.Equal(t, fmt.Sprintf("%+v", want[i]), fmt.Sprintf("%+v", c.events[i]), "%s: event %d", name, i)
		}
		require.Len(t, c.connects, 1)
		iwarp := name == "iWARP"
		assert.Equal(t, r.rec.connects[0].describe(iwarp), c.connects[0].describe(iwarp))

		_, err = readCapture(cutFile(t, path, 20_000), testClient)
		assert.ErrorContains(t, err, "is cut", name)
	}
}

// cutFile makes a file of the first n bytes of another.
func cutFile(t *testing.T, path string, n int) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "cut")
	require.NoError(t, os.WriteFile(out, b[:n], 0o600))
	return out
}

var testClient = [4]byte{10, 0, 0, 2}

// frame puts a UDP or TCP payload into Ethernet and IPv4.
func frame(client bool, proto byte, transport []byte) []byte {
	b := append(make([]byte, 12), 8, 0)
	b = append(b, 0x45, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(20+len(transport)))
	b = append(b, 0, 0, 0, 0, 64, proto, 0, 0)
	if client {
		b = append(append(b, testClient[:]...), 10, 0, 0, 1)
	} else {
		b = append(append(b, 10, 0, 0, 1), testClient[:]...)
	}
	return append(b, transport...)
}

func roceFrames(events []event, c connect) (out [][]byte) {
	const mtu = 1024
	var psn [2]uint32
	packet := func(client bool, op byte, body []byte) {
		qpn := uint32(17)
		if client {
			qpn = 18
		}
		p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, 49152), roceUDPPort)
		pad := -len(body) & 3
		p = append(p, 0, 0, 0, 0, op, byte(pad<<4), 0xff, 0xff)
		p = binary.BigEndian.AppendUint32(p, qpn)
		side := map[bool]int{true: 1, false: 0}[client]
		p = binary.BigEndian.AppendUint32(p, psn[side])
		psn[side]++
		p = append(append(p, body...), make([]byte, pad+4)...)
		out = append(out, frame(client, 17, p))
		if op != udSendOnly && len(out)%7 == 0 {
			out = append(out, out[len(out)-1]) // sent again
		}
	}
	mad := func(client bool, attr byte, m []byte) {
		p := make([]byte, dethLen+madLen)
		p[dethLen+1], p[dethLen+17] = 7, attr
		packet(client, udSendOnly, append(p, m...))
	}
	req, rep := make([]byte, 232), make([]byte, 232)
	copy(req[140+ipCMLen:], c.req.PrivateData)
	req[35], req[39], req[47], req[50] = byte(c.req.IRD), byte(c.req.ORD), 0xf0|c.req.RetryCnt, 0xf8|c.req.RNRRetry
	copy(rep[36:], c.rep.PrivateData)
	rep[24], rep[25], rep[27] = byte(c.rep.IRD), byte(c.rep.ORD), c.rep.RNRRetry<<5
	mad(true, cmREQ, req)
	mad(false, cmREP, rep)
	for _, e := range events {
		reth := binary.BigEndian.AppendUint64(nil, e.addr)
		reth = binary.BigEndian.AppendUint32(reth, e.key)
		reth = binary.BigEndian.AppendUint32(reth, uint32(e.n))
		ops, head := [4]byte{sendFirst, sendMiddle, sendLast, sendOnly}, []byte(nil)
		switch e.op {
		case verbs.OpRDMARead:
			packet(e.client, readRequest, reth)
			continue
		case verbs.OpRDMAWrite:
			ops, head = [4]byte{writeFirst, writeMiddle, writeLast, writeOnly}, reth
		case verbs.OpSendWithInv:
			ops[2], ops[3] = sendLastInv, sendOnlyInv
		}
		for at := 0; at == 0 || at < len(e.data); at += mtu {
			body := e.data[at:min(at+mtu, len(e.data))]
			last := at+mtu >= len(e.data)
			op := ops[1]
			switch {
			case at == 0 && last:
				op = ops[3]
			case at == 0:
				op = ops[0]
			case last:
				op = ops[2]
			}
			var ext []byte
			if at == 0 {
				ext = head
			}
			if last && e.op == verbs.OpSendWithInv {
				ext = binary.BigEndian.AppendUint32(nil, e.key)
			}
			packet(e.client, op, append(bytes.Clone(ext), body...))
		}
	}
	return out
}

func iwarpFrames(events []event, c connect) (out [][]byte) {
	const mss = 1400
	seq := map[bool]uint32{true: 0xfffffff0, false: 7}
	segment := func(client bool, flags byte, body []byte) {
		src, dst := uint16(33000), uint16(nfsTCPPort)
		if !client {
			src, dst = dst, src
		}
		p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, src), dst)
		p = binary.BigEndian.AppendUint32(p, seq[client])
		p = append(p, 0, 0, 0, 0, 5<<4, flags, 0, 0, 0, 0, 0, 0)
		out = append(out, frame(client, 6, append(p, body...)))
		seq[client] += uint32(len(body)) + uint32(flags&2)>>1
	}
	open := func(client bool, p verbs.ConnParam) {
		segment(client, 2, nil)
		b := append([]byte(strings.Repeat("k", 16)), 0, 2)
		b = binary.BigEndian.AppendUint16(b, uint16(4+len(p.PrivateData)))
		b = binary.BigEndian.AppendUint16(b, 0x8000|uint16(p.IRD))
		b = binary.BigEndian.AppendUint16(b, uint16(p.ORD))
		segment(client, 0, append(b, p.PrivateData...))
	}
	open(true, c.req)
	open(false, c.rep)
	fpdu := func(client bool, body []byte) {
		b := append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)
		b = append(b, make([]byte, -len(b)&3+4)...)
		segment(client, 0, b[:len(b)/2])
		segment(client, 0, b[len(b)/2:])
		if n := len(out); n%5 == 0 {
			out[n-1], out[n-2] = out[n-2], out[n-1] // overtaken
		}
	}
	for _, e := range events {
		if e.op == verbs.OpRDMARead {
			b := append([]byte{0x41, 0x41}, make([]byte, 16+12)...)
			b = binary.BigEndian.AppendUint32(b, uint32(e.n))
			b = binary.BigEndian.AppendUint32(b, e.key)
			fpdu(e.client, binary.BigEndian.AppendUint64(b, e.addr))
			continue
		}
		for at := 0; at == 0 || at < len(e.data); at += mss {
			ctrl := byte(1)
			if at+mss >= len(e.data) {
				ctrl |= 0x40
			}
			var b []byte
			switch e.op {
			case verbs.OpRDMAWrite:
				b = binary.BigEndian.AppendUint32([]byte{0x80 | ctrl, 0x40}, e.key)
				b = binary.BigEndian.AppendUint64(b, e.addr+uint64(at))
			case verbs.OpSendWithInv:
				b = binary.BigEndian.AppendUint32([]byte{ctrl, 0x44}, e.key)
				b = binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 0, 0, 0, 0, 1), uint32(at))
			default:
				b = binary.BigEndian.AppendUint32([]byte{ctrl, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, uint32(at))
			}
			fpdu(e.client, append(b, e.data[at:min(at+mss, len(e.data))]...))
		}
	}
	return out
}
