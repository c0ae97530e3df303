package verbsfuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// pathMTU is that of the connections, bytes, so that buffers take several packets.
const pathMTU = 1024

// Rig runs programs on two devices of a soft-RoCE network in virtual time. Each program has a connection of its own.
type Rig struct {
	s    *sched.Sched
	net  *softroce.Network
	peer [2]*peer
	m    model
	rnd  *rand.ChaCha8
	undo []func() error
	work [2][]posted
	ids  map[int]*Step
}

// peer is an end's devices and memory.
type peer struct {
	dev       verbs.Device
	pd, other verbs.PD
	cq        verbs.CQ
	mem       [numBufs][]byte
	mrs       [numBufs]verbs.MR
	gone      [2]uint32 // lkey and rkey of bufGone, and where it was
	goneAt    uint64
	dma       verbs.DMAMap

	// Of a program.
	qp      verbs.QP
	fast    verbs.FastRegMR
	win     verbs.MW
	fastKey [2]uint32 // the present and the one before
	winKey  [2]uint32
}

// NewRig makes the devices with what a personality can; the zero one is softroce.RoCE. It needs fast registration and
// windows of type 2B.
func NewRig(seed uint64, p softroce.Personality) (_ *Rig, err error) {
	if p.Name == "" {
		p = softroce.RoCE
	}
	if want := verbs.CapMemMgtExtensions | verbs.CapMemWindow2B; p.Attr.Caps&want != want {
		return nil, fmt.Errorf("verbsfuzz: %s has no fast registration or no windows of type 2B: %w", p.Name, verbs.ErrUnsupported)
	}
	r := &Rig{s: sched.NewVirtual(seed), rnd: rand.NewChaCha8([32]byte{byte(seed)}), ids: map[int]*Step{}}
	r.m.wcs = map[int]completion{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	r.net = softroce.NewNetwork(r.s, softroce.NetConfig{})
	r.undo = append(r.undo, r.net.Close)
	for i, name := range []string{"A", "B"} {
		if r.peer[i], err = r.newPeer(name, p); err != nil {
			return nil, err
		}
		for k := range r.m.ends[i].bufs {
			r.m.ends[i].bufs[k] = buffer{make([]byte, size), make([]bool, size)}
		}
	}
	return r, nil
}

func (r *Rig) newPeer(name string, pers softroce.Personality) (*peer, error) {
	p := &peer{}
	dev, err := r.net.NewDevice(name, pers)
	if err != nil {
		return nil, err
	}
	p.dev = dev
	r.undo = append(r.undo, dev.Close)
	for _, pd := range []*verbs.PD{&p.pd, &p.other} {
		if *pd, err = dev.AllocPD(); err != nil {
			return nil, err
		}
		r.undo = append(r.undo, (*pd).Close)
	}
	if p.cq, err = dev.CreateCQ(verbs.CQInit{Depth: 256, Name: name}); err != nil {
		return nil, err
	}
	r.undo = append(r.undo, p.cq.Close)
	for i, access := range [numBufs]verbs.Access{
		bufAll: verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite, bufRead: verbs.RemoteRead, bufWrite: verbs.LocalWrite | verbs.RemoteWrite,
		bufLocal: verbs.LocalWrite, bufOther: verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite,
		bufGone: verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite, bufWindow: verbs.LocalWrite | verbs.MWBind} {
		pd := p.pd
		if i == bufOther {
			pd = p.other
		}
		p.mem[i] = make([]byte, size)
		if i == bufFast {
			if err := pd.MapDMA(&p.dma, p.mem[i]); err != nil {
				return nil, err
			}
			r.undo = append(r.undo, func() error { pd.UnmapDMA(&p.dma); return nil })
			continue
		}
		mr, err := pd.RegMR(p.mem[i], access)
		if err != nil {
			return nil, err
		}
		if p.mrs[i] = mr; i == bufGone {
			p.gone, p.goneAt = [2]uint32{mr.LKey(), mr.RKey()}, mr.Addr()
			if err := mr.Close(); err != nil {
				return nil, err
			}
			continue
		}
		r.undo = append(r.undo, mr.Close)
	}
	return p, nil
}

// Close frees everything.
func (r *Rig) Close() error {
	err := r.s.Close()
	for _, f := range slices.Backward(r.undo) {
		err = errors.Join(err, f())
	}
	r.undo = nil
	return err
}

// Fingerprint sums up what the scheduler did: equal programs give equal ones.
func (r *Rig) Fingerprint() uint64 { return r.s.Fingerprint() }

// Run runs a program and says what was wrong, with the program as a story. After an error the rig can go on.
func (r *Rig) Run(ctx context.Context, p *Program) error {
	if err := r.connect(p); err != nil {
		return errors.Join(err, r.disconnect())
	}
	err := r.run(ctx, p)
	if err = errors.Join(err, r.disconnect()); err != nil {
		return fmt.Errorf("%w\n%v", err, p)
	}
	return nil
}

func (r *Rig) connect(p *Program) (err error) {
	r.m.init(p)
	clear(r.m.wcs)
	clear(r.ids)
	for i, e := range r.peer {
		r.work[i] = r.work[i][:0] // of a program that went wrong
		for k, b := range e.mem {
			_, _ = r.rnd.Read(b)
			copy(r.m.ends[i].bufs[k].want, b)
			clear(r.m.ends[i].bufs[k].loose)
		}
		if e.fast, err = e.pd.AllocFastRegMR(1); err != nil {
			return err
		}
		if e.win, err = e.pd.AllocMW(verbs.MWType2B); err != nil {
			return err
		}
		// So the first registration has a former key too.
		e.fastKey, e.winKey = [2]uint32{e.fast.NextKey()}, [2]uint32{e.win.NextKey()}
		e.qp, err = e.pd.CreateQP(verbs.QPInit{SendCQ: e.cq, RecvCQ: e.cq, MaxSendWR: maxWR, MaxRecvWR: maxWR, MaxSendSGE: maxSGE,
			MaxRecvSGE: maxSGE, MaxInline: maxInline, Name: e.dev.Name()})
		if err != nil {
			return err
		}
	}
	for _, st := range []verbs.QPState{verbs.Init, verbs.RTR, verbs.RTS} {
		for i, e := range r.peer {
			peer := r.peer[1-i]
			err := e.qp.Modify(verbs.QPAttr{State: st, Access: verbs.RemoteRead | verbs.RemoteWrite, DestAddr: peer.dev.Name(),
				DestQPN: peer.qp.Num(), RQPSN: 0xfffffe, SQPSN: 0xfffffe, PathMTU: pathMTU, IRD: p.IRD, ORD: p.ORD,
				MinRNR: 1, Timeout: 8, RetryCnt: 1, RNRRetry: p.RNRRetry})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Rig) disconnect() error {
	var errs []error
	for _, e := range r.peer {
		if e.qp != nil {
			errs = append(errs, e.qp.Close())
			e.qp = nil
		}
	}
	for _, e := range r.peer {
		if e.win != nil {
			errs = append(errs, e.win.Close())
			e.win = nil
		}
		if e.fast != nil {
			errs = append(errs, e.fast.Close())
			e.fast = nil
		}
		var wc [16]verbs.WC // what is left of a program that went wrong
		for {
			n, err := e.cq.Poll(wc[:])
			if errs = append(errs, err); n == 0 || err != nil {
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Rig) run(ctx context.Context, p *Program) error {
	last := -1
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Settle || s.By != last {
			if err := r.settle(ctx); err != nil {
				return err
			}
		}
		last = s.By
		if err := r.post(i, s); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return r.settle(ctx)
}

// settle waits until the work that was posted is over, and judges it.
func (r *Rig) settle(ctx context.Context) error {
	if err := r.s.Sleep(ctx, 100*sched.Millisecond); err != nil { // the longest retries
		return err
	}
	for i, e := range r.peer {
		if err := r.poll(i, e.cq); err != nil {
			return err
		}
	}
	r.m.beginBatch()
	for i := range r.work {
		w := r.work[i]
		r.work[i] = r.work[i][:0]
		if err := r.m.judge(w); err != nil {
			return err
		}
	}
	for id, c := range r.m.wcs {
		return fmt.Errorf("step %d: a completion, %q, that nothing asks for", id, c.wc.Status)
	}
	for i, e := range r.peer {
		if dead := e.qp.Query().State == verbs.Error; dead != r.m.ends[i].dead {
			return fmt.Errorf("%c is in state %v", 'A'+rune(i), e.qp.Query().State)
		}
	}
	return r.m.compare(func(e, buf int) []byte { return r.peer[e].mem[buf] })
}

// poll takes completions, which must come in order, of sends and of receives.
func (r *Rig) poll(end int, cq verbs.CQ) error {
	var wc [16]verbs.WC
	last := [2]int{-1, -1}
	for {
		n, err := cq.Poll(wc[:])
		if err != nil {
			return err
		}
		for _, c := range wc[:n] {
			id := int(c.ID)
			s := r.ids[id]
			if s == nil || s.By != end || c.QPN != r.peer[end].qp.Num() {
				return fmt.Errorf("%c: a completion of step %d, queue pair %d", 'A'+rune(end), id, c.QPN)
			}
			k := 0
			if s.Op == verbs.OpRecv {
				k = 1
			}
			if id <= last[k] || r.m.wcs[id].is {
				return fmt.Errorf("step %d completes after step %d, or twice", id, last[k])
			}
			last[k] = id
			r.m.wcs[id] = completion{true, c}
		}
		if n == 0 {
			return nil
		}
	}
}

// post calls the verb.
func (r *Rig) post(id int, s *Step) error {
	e := r.peer[s.By]
	r.ids[id] = s
	var err error
	var inv uint32
	if s.Op == verbs.OpRecv {
		_, err = e.qp.PostRecv([]verbs.RecvWR{{ID: uint64(id), SGEs: r.sges(e, s.Local)}})
	} else {
		var wr verbs.SendWR
		if wr, err = r.workRequest(id, s); err == nil {
			inv = wr.InvKey
			_, err = e.qp.PostSend([]verbs.SendWR{wr})
		}
	}
	must, may := r.refuses(s)
	switch {
	case err == nil && must:
		return errors.New("was taken, and is beyond the limits of the queue pair")
	case err == nil:
		r.work[s.By] = append(r.work[s.By], posted{id, s, inv})
		return nil
	case !must && !may:
		return fmt.Errorf("was refused: %w", err)
	case !errors.Is(err, verbs.ErrInvalid):
		return fmt.Errorf("was refused with %w, want %w", err, verbs.ErrInvalid)
	}
	return nil
}

// refuses says whether a post must or may fail.
func (r *Rig) refuses(s *Step) (must, may bool) {
	a := r.peer[s.By].dev.Attr()
	limit := maxSGE
	if s.Op == verbs.OpRDMARead {
		limit = min(limit, a.MaxSGERd)
	}
	return len(s.Local) > limit || s.Inline > maxInline || total(s.Local) > int64(a.MaxMsgSize) && s.Op != verbs.OpRecv,
		total(s.Local) > 1<<31
}

func (r *Rig) sges(e *peer, ps []Piece) (l []verbs.SGE) {
	for _, p := range ps {
		addr, lkey := uint64(0x1000), uint32(0x12)
		switch p.Buf {
		case bufNo:
		case bufGone:
			addr, lkey = e.goneAt, e.gone[0]
		case bufFast:
			addr, lkey = e.fast.Addr(), e.fastKey[0]
		default:
			addr, lkey = e.mrs[p.Buf].Addr(), e.mrs[p.Buf].LKey()
		}
		l = append(l, verbs.SGE{Addr: addr + uint64(p.Off), Length: p.Len, LKey: lkey})
	}
	return l
}

// remote is the address and key of a buffer of e, for its peer.
func (e *peer) remote(s *Step) (addr uint64, rkey uint32) {
	old := 0
	if s.Old {
		old = 1
	}
	switch s.Buf {
	case bufNo:
		return 0x1000, 0x12
	case bufGone:
		return e.goneAt, e.gone[1]
	case bufFast:
		return e.fast.Addr(), e.fastKey[old]
	case bufWindow:
		return e.mrs[bufWindow].Addr() + windowAt, e.winKey[old]
	}
	return e.mrs[s.Buf].Addr(), e.mrs[s.Buf].RKey()
}

func (r *Rig) workRequest(id int, s *Step) (verbs.SendWR, error) {
	e := r.peer[s.By]
	wr := verbs.SendWR{ID: uint64(id), Op: s.Op, Flags: s.Flags, SGEs: r.sges(e, s.Local), Imm: uint32(id)}
	if s.Flags&verbs.Inline != 0 {
		wr.Data = inlineData(id, s.Inline).want
	}
	switch s.Op {
	case verbs.OpRDMARead, verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm:
		addr, key := r.peer[1-s.By].remote(s)
		wr.RemoteAddr, wr.RKey = addr+uint64(s.Off), key
	case verbs.OpSendWithInv:
		_, wr.InvKey = r.peer[1-s.By].remote(s)
	case verbs.OpLocalInv:
		_, wr.InvKey = e.remote(s)
	case verbs.OpRegMR:
		wr.Reg, wr.Access, wr.Key = e.fast, s.Access, e.fastKey[0]
		if !r.m.ends[s.By].keys[bufFast].valid {
			if n := e.fast.MapPages(e.dma.Segs); n != len(e.dma.Segs) {
				return wr, fmt.Errorf("%d of %d pages fit", n, len(e.dma.Segs))
			}
			if key := e.fast.NextKey(); !r.m.ends[s.By].dead {
				e.fastKey = [2]uint32{key, e.fastKey[0]}
			}
			wr.Key = e.fastKey[0]
		}
	case verbs.OpBindMW:
		wr.MW, wr.Key = e.win, e.winKey[0]
		if !r.m.ends[s.By].keys[bufWindow].valid {
			if key := e.win.NextKey(); !r.m.ends[s.By].dead {
				e.winKey = [2]uint32{key, e.winKey[0]}
			}
			wr.Key = e.winKey[0]
		}
		wr.Bind = verbs.Bind{MR: e.mrs[s.Buf], Addr: e.mrs[s.Buf].Addr() + uint64(s.Off), Length: uint64(s.Len), Access: s.Access}
	}
	return wr, nil
}
