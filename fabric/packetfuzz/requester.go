package packetfuzz

import (
	"bytes"
	"fmt"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// work is a work request of the victim.
type work struct {
	id   uint64
	op   verbs.Opcode
	psn  uint32
	npkt uint32
	off  int // in region both, or for a READ in own
	n    int
	got  uint32 // READ: packets of data taken
	from uint32 // READ: packet that its latest request began with
	done bool
}

func (w *work) last() uint32 { return (w.psn + w.npkt - 1) & psnMask }

// asker is the requester of the IB specification, sections 9.7.5 and 9.9.2.
type asker struct {
	work    []work // not completed
	una     uint32 // oldest PSN without an answer
	next    uint32 // PSN of new work
	sent    uint32 // PSN after what was sent
	dead    bool
	refusal uint32 // PSN of a fatal NAK that waits for the READs before it
	status  verbs.Status
	wcs     []verbs.WC
	mem     [size]byte // own
	ids     uint64
	now     sched.Time
	held    sched.Time // by an RNR NAK, until then
	tries   int        // RNR NAKs that may still come without progress
	retry   int
}

// acked takes an ACK of what was sent; a READ is answered by its data alone, and those after it wait for that.
func (a *asker) acked(psn uint32) {
	if diff(psn, a.una) < 0 || diff(psn, a.sent) >= 0 {
		return
	}
	una := a.una
	for i := range a.work {
		w := &a.work[i]
		if w.done {
			continue
		}
		if w.op == verbs.OpRDMARead || diff(psn, w.psn) < 0 {
			break
		}
		if diff(psn, w.last()) < 0 {
			una = (psn + 1) & psnMask
			break
		}
		w.done = true
		una = (w.last() + 1) & psnMask
	}
	a.answered(una)
}

func (a *asker) answered(una uint32) {
	if una == a.una {
		return
	}
	a.una = una
	a.tries = a.retry
	for len(a.work) > 0 && a.work[0].done {
		a.complete(verbs.Success)
	}
	if a.status != verbs.Success && a.refusal == una {
		a.fail(a.status)
	}
}

func (a *asker) complete(s verbs.Status) {
	w := &a.work[0]
	c := verbs.WC{ID: w.id, Status: s}
	if s == verbs.Success && w.op == verbs.OpRDMARead {
		c.ByteLen = uint32(w.n)
	}
	a.wcs = append(a.wcs, c)
	a.work = a.work[1:]
}

// fail ends the oldest work with s, and flushes the rest.
func (a *asker) fail(s verbs.Status) {
	a.dead = true
	for len(a.work) > 0 {
		a.complete(s)
		s = verbs.WRFlushErr
	}
}

func (a *asker) packet(p *softroce.RawPacket) {
	switch {
	case a.dead, p.BadICRC, p.Cut, p.DestQP != 0, p.PKey != 0 && p.PKey&0x7fff != 0x7fff, len(p.Payload)%4 != 0, int(p.Pad) > len(p.Payload):
		return
	case p.Opcode >= softroce.OpcReadFirst && p.Opcode <= softroce.OpcReadOnly:
		if p.Opcode == softroce.OpcReadMiddle || p.Syndrome < softroce.SynRNR {
			a.data(p)
		}
		return
	case p.Opcode != softroce.OpcAck:
		return
	}
	code := p.Syndrome & 0x1f
	switch p.Syndrome & 0xe0 {
	case softroce.SynAck:
		a.acked(p.PSN)
		return
	case softroce.SynRNR:
	case softroce.SynNak:
		if code > 3 {
			return // reserved
		}
	default:
		return
	}
	if diff(p.PSN, a.una) < 0 || diff(p.PSN, a.sent) >= 0 {
		return
	}
	a.acked((p.PSN - 1) & psnMask)
	if a.dead {
		return
	}
	if p.Syndrome&0xe0 == softroce.SynRNR {
		if a.now < a.held {
			return // a copy
		}
		if a.tries > 0 || a.retry == 7 {
			a.tries--
			a.held = a.now.Add(rnrDelay[code] * 10 * sched.Microsecond)
			return
		}
		a.refused(p.PSN, verbs.RNRRetryExcErr)
		return
	}
	if code == 0 {
		return // it is sent again, without end
	}
	s := [...]verbs.Status{0, verbs.RemInvReqErr, verbs.RemAccessErr, verbs.RemOpErr}[code]
	a.refused(p.PSN, s)
}

// refused is a fatal NAK: at once, or when the READs before it have their data.
func (a *asker) refused(psn uint32, s verbs.Status) {
	if psn == a.una {
		a.fail(s)
		return
	}
	a.refusal, a.status = psn, s
}

// rnrDelay has the RNR timers in units of 10 us (IB specification table 45).
var rnrDelay = [32]sched.Duration{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

// data of the oldest READ.
func (a *asker) data(p *softroce.RawPacket) {
	var w *work
	before := 0
	for i := range a.work {
		if x := &a.work[i]; x.op == verbs.OpRDMARead && !x.done {
			w, before = x, i
			break
		}
	}
	if w == nil || diff(p.PSN, a.sent) >= 0 || p.PSN != (w.psn+w.got)&psnMask {
		return // seen before, or after a gap: it is asked for again
	}
	n := len(p.Payload) - int(p.Pad)
	off := int(w.got) * mtu
	first := p.Opcode == softroce.OpcReadFirst || p.Opcode == softroce.OpcReadOnly
	last := p.Opcode == softroce.OpcReadLast || p.Opcode == softroce.OpcReadOnly
	if first && w.got != w.from || !first && w.got == 0 || last != (w.got == w.npkt-1) || n != min(mtu, w.n-off) {
		for range before { // acknowledged by it
			a.complete(verbs.Success)
		}
		a.fail(verbs.BadRespErr)
		return
	}
	copy(a.mem[w.off+off:], p.Payload[:n])
	w.got++
	if last {
		w.done = true
	}
	for i := range before {
		a.work[i].done = true
	}
	a.answered((p.PSN + 1) & psnMask)
}

// saw checks a request of the victim.
func (a *asker) saw(r *Rig, p *softroce.RawPacket) error {
	for i := range a.work {
		w := &a.work[i]
		k := diff(p.PSN, w.psn)
		if k < 0 || k >= int(w.npkt) {
			continue
		}
		if end := (w.last() + 1) & psnMask; diff(end, a.sent) > 0 {
			a.sent = end
		}
		kind, first, last, _ := shape(p.Opcode)
		if w.op == verbs.OpRDMARead {
			if kind != 'R' || int(p.DMALen) != w.n-k*mtu || p.VA != uint64(1000*w.id)+uint64(k*mtu) {
				return fmt.Errorf("request %s for READ %d", Format(p), w.id)
			}
			w.from = uint32(k)
			return nil
		}
		b := r.mr[regBoth].Bytes()[w.off+k*mtu : min(w.off+(k+1)*mtu, w.off+w.n)]
		if (kind == 'W') != (w.op == verbs.OpRDMAWrite) || first != (k == 0) || last != (k == int(w.npkt)-1) ||
			!bytes.Equal(b, p.Payload[:len(p.Payload)-int(p.Pad)]) || kind == 'W' && first && int(p.DMALen) != w.n {
			return fmt.Errorf("request %s for %v %d of %d bytes", Format(p), w.op, w.id, w.n)
		}
		return nil
	}
	if diff(p.PSN, a.una) < 0 && diff(p.PSN, a.una) > -64 {
		return nil // it left before the answer came
	}
	return fmt.Errorf("request %s of no work", Format(p))
}

// post gives the victim work.
func (a *asker) post(r *Rig, g *gen) (string, error) {
	w := work{id: a.ids, op: pick(g, verbs.OpRDMARead, verbs.OpRDMAWrite, verbs.OpSend), psn: a.next,
		n: pick(g, 8, 1, 100, mtu, mtu+1, 3*mtu, 2*mtu, 700, 0)}
	a.ids++
	w.off = int(w.id) % 4 * 1000
	w.npkt = count(uint32(w.n))
	reg := regBoth
	if w.op == verbs.OpRDMARead {
		reg = regOwn
	}
	wr := verbs.SendWR{ID: w.id, Op: w.op, Flags: verbs.Signaled, RemoteAddr: 1000 * w.id, RKey: 7}
	if w.n > 0 {
		wr.SGEs = []verbs.SGE{{Addr: r.mr[reg].Addr() + uint64(w.off), Length: uint32(w.n), LKey: r.mr[reg].LKey()}}
	}
	a.work = append(a.work, w)
	a.next = (a.next + w.npkt) & psnMask
	_, err := r.qp.PostSend([]verbs.SendWR{wr})
	return fmt.Sprintf("post %v %d of %d bytes, psn %d", w.op, w.id, w.n, w.psn), err
}

// response is the right one for the oldest work without an answer, or a neighbour.
func (a *asker) response(g *gen) softroce.RawPacket {
	p := softroce.RawPacket{Opcode: softroce.OpcAck, PSN: a.una}
	n := 0
	if len(a.work) > 0 {
		w := &a.work[0]
		for i := range a.work {
			if w = &a.work[i]; !w.done {
				break
			}
		}
		if w.op == verbs.OpRDMARead {
			p.PSN = (w.psn + w.got) & psnMask
			first, last := w.got == w.from, w.got == w.npkt-1
			n = min(mtu, w.n-int(w.got)*mtu)
			switch {
			case first && last:
				p.Opcode = softroce.OpcReadOnly
			case first:
				p.Opcode = softroce.OpcReadFirst
			case last:
				p.Opcode = softroce.OpcReadLast
			default:
				p.Opcode = softroce.OpcReadMiddle
			}
		} else {
			p.PSN = w.last()
		}
	}
	if f := g.odd(5); f > 0 {
		p.Opcode = softroce.OpcReadFirst + uint8(f) - 1
	}
	if f := g.odd(10); f > 0 {
		p.PSN = (p.PSN + [...]uint32{0, 1, 2, psnMask, psnMask - 1, 4, 10, 1 << 23, 1<<23 - 1, psnMask - 9, 3}[f]) & psnMask
	}
	switch g.odd(6) {
	case 1, 2:
		p.Syndrome = softroce.SynNak + g.byte()%4
	case 3:
		p.Syndrome = softroce.SynNak + g.byte()%32
	case 4:
		p.Syndrome = softroce.SynRNR + g.byte()%32
	case 5:
		p.Syndrome = 0x40 + g.byte()%32
	case 6:
		p.Syndrome = g.byte()
	}
	if f := g.odd(7); f > 0 {
		n = [...]int{0, 0, n + 1, max(n-1, 0), mtu, mtu + 4, 2 * mtu, 4}[f]
	}
	p.Payload, p.Pad = g.payload(n)
	switch g.odd(5) {
	case 1:
		p.BadICRC = true
	case 2:
		p.Cut = true
	case 3:
		p.DestQP = 1
	case 4:
		p.PKey = 0x1234
	case 5:
		p.Pad = (p.Pad + 1) & 3
	}
	return p
}

// requester plays a hostile responder.
func (r *Rig) requester(in []byte, res *Result) error {
	g := &gen{in: in}
	psn := g.startPSN()
	r.rnrRetry = pick[uint8](g, 7, 0, 1, 2)
	err := r.connect(psn, 1)
	if err != nil {
		return err
	}
	a := &asker{una: psn, next: psn, sent: psn, retry: int(r.rnrRetry), tries: int(r.rnrRetry)}
	fill(a.mem[:], regOwn)
	dead := 0
	last := softroce.RawPacket{Opcode: softroce.OpcAck, PSN: psn}
	for step := 0; step < maxSteps && (step < 4 || len(g.in) > 0) && dead < 2; step++ {
		r.seen = r.seen[:0]
		a.wcs = a.wcs[:0]
		for step == 0 || g.odd(3) == 1 && !a.dead && len(a.work) < maxDepth/2 {
			for range 1 + int(g.byte())%5 {
				s, err := a.post(r, g)
				if err != nil {
					return fmt.Errorf("packetfuzz: %s: %w", s, err)
				}
				res.line("  %s", s)
			}
			break
		}
		if err := r.settle(); err != nil {
			return err
		}
		if res.Err = a.check(r, res); res.Err != nil {
			return nil
		}
		p := a.response(g)
		if g.odd(7) == 1 {
			p = last // replayed
		}
		last = p
		res.line("> %s", Format(&p))
		a.now = r.s.Now()
		a.packet(&p)
		if err := r.send(p); err != nil {
			return err
		}
		if res.Err = a.check(r, res); res.Err != nil {
			return nil
		}
		if a.dead {
			dead++
		}
	}
	return nil
}

// check compares what is there with what must be.
func (a *asker) check(r *Rig, res *Result) error {
	for i := range r.seen {
		res.line("< %s", Format(&r.seen[i]))
	}
	for i := range r.seen {
		if err := a.saw(r, &r.seen[i]); err != nil && !a.dead {
			return err
		}
	}
	if state := r.qp.Query().State; (state == verbs.Error) != a.dead {
		return fmt.Errorf("the queue pair is in %v", state)
	}
	wcs, err := r.completions()
	if err != nil {
		return err
	}
	for i, c := range wcs {
		if i >= len(a.wcs) {
			return fmt.Errorf("completion %+v of nothing", c)
		}
		x := a.wcs[i]
		if c.ID != x.ID || c.Status != x.Status || x.Status == verbs.Success && c.ByteLen != x.ByteLen {
			return fmt.Errorf("completion %+v, want %+v", c, x)
		}
	}
	if len(wcs) < len(a.wcs) {
		return fmt.Errorf("no completion, want %+v", a.wcs[len(wcs)])
	}
	a.wcs = a.wcs[:0]
	if b := r.mr[regOwn].Bytes(); !bytes.Equal(b, a.mem[:]) {
		for k := range b {
			if b[k] != a.mem[k] {
				return fmt.Errorf("byte %d of own memory is %#x, want %#x", k, b[k], a.mem[k])
			}
		}
	}
	for i := range regOwn {
		for k, b := range r.mr[i].Bytes() {
			if want := byte(k*7+k>>8) ^ byte(i<<6); b != want {
				return fmt.Errorf("byte %d of region %s is %#x, want %#x", k, regionNames[i], b, want)
			}
		}
	}
	return nil
}
