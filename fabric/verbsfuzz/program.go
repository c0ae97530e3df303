package verbsfuzz

import (
	"fmt"
	"strings"

	"example.org/nfsrdma/verbs"
)

// size is that of every buffer, bytes: several packets.
const size = 3000

// Buffers of an end. Each is a region with the rights of its name; bufOther belongs to another protection domain,
// bufGone is not registered any more, bufFast and bufWindow are behind the fast registration and the window.
const (
	bufAll = iota
	bufRead
	bufWrite
	bufLocal
	bufNone
	bufOther
	bufGone
	bufFast
	bufWindow
	numBufs

	bufNo = numBufs // a key that nothing has
)

var bufNames = [...]string{"all", "remote-read", "remote-write", "local-write", "read-only", "other-domain", "gone", "fast", "window", "no-key"}

// window is the piece of its buffer that the window covers.
const windowAt, windowLen = 1000, 1500

// Piece is local memory: n bytes at an offset of a buffer.
type Piece struct {
	Buf int
	Off int64
	Len uint32
}

// Step is a call of a verb.
type Step struct {
	By     int  // the end that calls: 0 or 1
	Settle bool // everything before it is over first
	Op     verbs.Opcode
	Flags  verbs.SendFlags
	Local  []Piece
	Inline int // bytes, with verbs.Inline
	Buf    int // remote buffer; of *_INV, the one whose key is invalidated; of REG_MR and BIND_MW, the one that is bound
	Off    int64
	Len    uint32       // of the window to bind
	Access verbs.Access // of REG_MR and BIND_MW
	Old    bool         // the key that the fast registration or window had before
}

func (s *Step) String() string {
	var b strings.Builder
	if s.Settle {
		b.WriteString("(settled) ")
	}
	fmt.Fprintf(&b, "%c: %v", 'A'+rune(s.By), s.Op)
	for _, p := range s.Local {
		fmt.Fprintf(&b, " [%s %+d, %d]", bufNames[p.Buf], p.Off, p.Len)
	}
	if s.Flags&verbs.Inline != 0 {
		fmt.Fprintf(&b, " %d bytes inline", s.Inline)
	}
	switch s.Op {
	case verbs.OpRDMARead, verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm:
		fmt.Fprintf(&b, " remote %s %+d", bufNames[s.Buf], s.Off)
	case verbs.OpLocalInv, verbs.OpSendWithInv:
		fmt.Fprintf(&b, " key of %s", bufNames[s.Buf])
	case verbs.OpBindMW:
		fmt.Fprintf(&b, " to %s %+d, %d, rights %#x", bufNames[s.Buf], s.Off, s.Len, s.Access)
	case verbs.OpRegMR:
		fmt.Fprintf(&b, " rights %#x", s.Access)
	}
	if s.Old {
		b.WriteString(" (its former key)")
	}
	for _, f := range []struct {
		flag verbs.SendFlags
		name string
	}{{verbs.Signaled, "signaled"}, {verbs.Fence, "fence"}} {
		if s.Flags&f.flag != 0 {
			b.WriteString(" " + f.name)
		}
	}
	return b.String()
}

// Program is what both ends do, and how their connection is.
type Program struct {
	ORD, IRD int   // ORD above IRD: the requester does not keep to what the responder can
	RNRRetry uint8 // 0..6
	Steps    []Step
}

// String is the program as a story, a verb a line.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ORD %d, IRD %d, RNR retries %d", p.ORD, p.IRD, p.RNRRetry)
	for i := range p.Steps {
		fmt.Fprintf(&b, "\n%3d %v", i, &p.Steps[i])
	}
	return b.String()
}

// maxSteps bounds a program.
const maxSteps = 12

// decoder keeps count of what is ordinary: keys that are valid.
type decoder struct {
	in        []byte
	fast, win [2]bool
}

func (d *decoder) byte() byte {
	if len(d.in) == 0 {
		return 0
	}
	b := d.in[0]
	d.in = d.in[1:]
	return b
}

// odd is 0, or one of n unusual things.
func (d *decoder) odd(n int) int {
	if b := d.byte(); b >= 0x80 {
		return 1 + int(b-0x80)%n
	}
	return 0
}

func pick[T any](d *decoder, list ...T) T { return list[int(d.byte())%len(list)] }

// Decode makes a program of any bytes.
func Decode(in []byte) *Program {
	d := &decoder{in: in}
	p := &Program{ORD: 16, IRD: 16, RNRRetry: 1}
	switch d.odd(4) {
	case 1:
		p.ORD, p.IRD = 1, 1
	case 2:
		p.ORD, p.IRD = 16, 1
	case 3:
		p.ORD, p.IRD = 4, 2
	case 4:
		p.RNRRetry = 0
	}
	for len(d.in) > 0 && len(p.Steps) < maxSteps {
		s := d.step()
		switch s.Op {
		case verbs.OpSend, verbs.OpSendWithImm, verbs.OpSendWithInv, verbs.OpRDMAWriteWithImm:
			if d.odd(1) == 0 { // a receive for it
				n := pick[uint32](d, size, 0)
				if n == 0 {
					n = uint32(max(total(s.Local), int64(s.Inline)))
				}
				p.Steps = append(p.Steps, Step{By: 1 - s.By, Op: verbs.OpRecv, Local: d.pieces(min(n, size))})
			}
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

var ordinaryOps = [...]verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead, verbs.OpRecv, verbs.OpSend, verbs.OpRegMR, verbs.OpRDMARead,
	verbs.OpBindMW, verbs.OpRDMAWriteWithImm, verbs.OpSendWithImm, verbs.OpSendWithInv, verbs.OpLocalInv, verbs.OpRecv, verbs.OpRDMAWrite}

func (d *decoder) step() Step {
	s := Step{Op: ordinaryOps[int(d.byte())%len(ordinaryOps)], Flags: verbs.Signaled}
	f := d.byte()
	if f&1 != 0 && f&32 != 0 {
		s.By = 1
	}
	a, b := s.By, 1-s.By
	if f&6 == 6 {
		s.Flags = 0
	}
	if f&8 != 0 {
		s.Flags |= verbs.Fence
	}
	s.Settle = f&16 != 0
	switch s.Op {
	case verbs.OpRecv:
		s.Flags = 0
		s.Local = d.pieces(pick[uint32](d, size, 100, 1024, 1, 0, size-1))
	case verbs.OpLocalInv:
		s.Settle = true // work that uses the region may not have been done before
		if s.Buf = bufWindow; !d.win[a] || d.fast[a] && f&64 == 0 {
			s.Buf = bufFast
		}
		if !d.fast[a] && !d.win[a] && f&64 == 0 { // nothing to invalidate: register something
			return d.register(s, a)
		}
		switch d.odd(4) {
		case 0:
			*d.valid(s.Buf, a) = false
		case 1:
			s.Buf = pick(d, bufAll, bufOther, bufGone, bufNo)
		case 2, 3:
			s.Old = true
		}
	case verbs.OpRegMR:
		if d.fast[a] && f&64 == 0 {
			s.Op = verbs.OpRDMAWrite
			d.data(&s, b)
			return s
		}
		return d.register(s, a)
	case verbs.OpBindMW:
		if d.win[a] && f&64 == 0 {
			s.Op = verbs.OpRDMARead
			d.data(&s, b)
			return s
		}
		s.Settle = true
		s.Buf, s.Off, s.Len = bufWindow, windowAt, windowLen
		s.Access = pick(d, verbs.RemoteRead|verbs.RemoteWrite, verbs.RemoteRead, verbs.RemoteWrite)
		switch d.odd(5) {
		case 0:
			d.win[a] = true
		case 1:
			s.Buf = bufAll // without the right to bind
		case 2:
			s.Len = size
		case 3:
			s.Off = -1
		case 4:
			s.Off = size - windowLen + 1
		case 5:
			s.Buf = bufOther
		}
	default:
		d.data(&s, b)
	}
	return s
}

func (d *decoder) register(s Step, a int) Step {
	s.Op, s.Settle, d.fast[a] = verbs.OpRegMR, true, true
	s.Access = pick(d, verbs.RemoteRead|verbs.RemoteWrite|verbs.LocalWrite, verbs.RemoteRead, verbs.LocalWrite|verbs.RemoteWrite, verbs.LocalWrite)
	return s
}

// valid is whether end a has made a key of the buffer, of which its owner tells.
func (d *decoder) valid(buf, a int) *bool {
	if buf == bufFast {
		return &d.fast[a]
	}
	return &d.win[a]
}

// data makes a transfer to or from end b.
func (d *decoder) data(s *Step, b int) {
	n := pick[uint32](d, 8, 100, 0, 1, 1024, 1025, size-windowAt, size)
	if s.Op != verbs.OpRDMARead && n <= maxInline && d.odd(1) == 1 {
		s.Flags |= verbs.Inline
		s.Inline = int(n)
		if d.odd(2) == 1 {
			s.Inline = maxInline + 1
		}
	} else {
		s.Local = d.pieces(n)
	}
	switch s.Op {
	case verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm, verbs.OpRDMARead:
		s.Buf = pick(d, bufAll, bufFast, bufWindow, bufAll)
		if (s.Buf == bufFast || s.Buf == bufWindow) && !*d.valid(s.Buf, b) {
			s.Buf = bufRead
			if s.Op != verbs.OpRDMARead {
				s.Buf = bufWrite
			}
		}
		if i := d.odd(6); i > 0 {
			s.Buf = [...]int{bufLocal, bufNone, bufOther, bufGone, bufNo, bufFast}[i-1]
			s.Old = i == 6
		}
		limit := int64(size)
		if s.Buf == bufWindow {
			limit = windowLen
		}
		switch d.odd(6) {
		case 0:
			if s.Off = int64(d.byte() % 64); s.Off+int64(n) > limit {
				s.Off = 0
			}
			if int64(n) > limit && d.odd(1) == 0 {
				s.Buf = bufAll
			}
		case 1:
			s.Off = limit - int64(n) // to its end
		case 2:
			s.Off = limit - int64(n) + 1 // one byte past it
		case 3:
			s.Off = -1
		case 4:
			s.Off = limit
		case 5:
			s.Off = -1 << 63
		case 6:
			s.Off = 1<<62 - 1
		}
	case verbs.OpSendWithInv:
		if s.Buf = pick(d, bufFast, bufWindow); *d.valid(s.Buf, b) {
			*d.valid(s.Buf, b) = false
		} else if d.odd(1) == 0 {
			s.Op = verbs.OpSend
			return
		}
		if i := d.odd(6); i > 0 {
			s.Buf = [...]int{bufAll, bufOther, bufGone, bufNo, bufFast, bufWindow}[i-1]
			s.Old = i > 4
		}
	}
}

// pieces splits n bytes, mostly into one piece.
func (d *decoder) pieces(n uint32) []Piece {
	if n == 0 {
		return nil
	}
	at := func(off int64, n uint32) Piece {
		p := Piece{Buf: bufAll, Off: off, Len: n}
		switch d.odd(9) {
		case 1:
			p.Buf = bufNone
		case 2:
			p.Buf = bufOther
		case 3:
			p.Buf = bufGone
		case 4:
			p.Buf = bufNo
		case 5:
			p.Off = size - int64(n) + 1
		case 6:
			p.Off = -1
		case 7:
			p.Len = 1 << 31
		case 8:
			p.Len = 1<<32 - 1
		case 9:
			p.Buf = bufFast
		}
		return p
	}
	if n < 8 {
		return []Piece{at(0, n)}
	}
	switch d.odd(3) {
	case 1:
		return []Piece{at(0, n/2), at(int64(n/2), n-n/2)}
	case 2:
		return []Piece{at(0, 1), at(9, n-3), at(3, 1), at(1, 1)}
	case 3:
		return []Piece{at(0, 1), at(1, 1), at(2, 1), at(3, 1), at(4, n-4)} // more than maxSGE
	}
	return []Piece{at(0, n)}
}
