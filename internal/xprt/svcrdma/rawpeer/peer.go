package rawpeer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Config is what Dial needs.
type Config struct {
	Device      verbs.Device
	Sched       *sched.Sched
	Addr        string // of the server
	PrivateData []byte
	Recvs       int      // receives kept posted; 0 is 80
	RecvSize    int      // bytes of each; 0 is 8192
	SendSize    int      // longest message, and all of a Pump; 0 is 1 MiB
	PD          verbs.PD // nil: one of its own
	IRD, ORD    int      // 0 is 16; negative is 0
}

// Peer is a connection. One task uses it at a time.
type Peer struct {
	Private []byte // what the server sent when it accepted

	cfg  Config
	pd   verbs.PD
	scq  verbs.CQ
	rcq  verbs.CQ
	id   verbs.ID
	qp   verbs.QP
	recv verbs.MR
	send verbs.MR
	mrs  []verbs.MR
	msgs *sched.Queue[Msg]
	sent *sched.Queue[verbs.WC]
	hold bool // receives are not posted again
	pump atomic.Pointer[Pump]

	rpoll, spoll polling
}

// Msg is a received message, or the failure of a receive.
type Msg struct {
	Bytes  []byte
	InvKey uint32 // the key that was invalidated with it
	Inv    bool
	Status verbs.Status
}

// ErrEnded is what Recv returns when the connection has ended.
var ErrEnded = errors.New("rawpeer: connection ended")

func orDefault(v, def int) int {
	switch {
	case v == 0:
		return def
	case v < 0:
		return 0
	}
	return v
}

// Dial connects.
func Dial(ctx context.Context, cfg Config) (_ *Peer, err error) {
	cfg.Recvs, cfg.RecvSize = orDefault(cfg.Recvs, 80), orDefault(cfg.RecvSize, 8192)
	p := &Peer{cfg: cfg}
	p.msgs = sched.NewQueue[Msg](cfg.Sched, "a message for the raw peer")
	p.sent = sched.NewQueue[verbs.WC](cfg.Sched, "a completion for the raw peer")
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.pd = cfg.PD; p.pd == nil {
		if p.pd, err = cfg.Device.AllocPD(); err != nil {
			return nil, err
		}
	}
	if p.rcq, err = cfg.Device.CreateCQ(verbs.CQInit{Depth: cfg.Recvs + 1, Handler: p.received, Name: "rawpeer recv"}); err != nil {
		return nil, err
	}
	if p.scq, err = cfg.Device.CreateCQ(verbs.CQInit{Depth: 1 << 14, Handler: p.completed, Name: "rawpeer send"}); err != nil {
		return nil, err
	}
	if p.recv, err = p.pd.AllocMR(max(cfg.Recvs*cfg.RecvSize, 1), verbs.LocalWrite); err != nil {
		return nil, err
	}
	if p.send, err = p.pd.AllocMR(orDefault(cfg.SendSize, 1<<20), 0); err != nil {
		return nil, err
	}
	if p.id, err = cfg.Device.Resolve(ctx, cfg.Addr); err != nil {
		return nil, err
	}
	p.qp, err = p.id.CreateQP(p.pd, verbs.QPInit{
		SendCQ: p.scq, RecvCQ: p.rcq, MaxSendWR: 128, MaxRecvWR: max(cfg.Recvs, 1), MaxSendSGE: 1, MaxRecvSGE: 1, Name: "rawpeer",
	})
	if err != nil {
		return nil, err
	}
	for i := range cfg.Recvs {
		if err := p.post(i); err != nil {
			return nil, err
		}
	}
	p.rcq.Arm(false)
	p.scq.Arm(false)
	peer, err := p.id.Connect(ctx, verbs.ConnParam{
		PrivateData: cfg.PrivateData, IRD: orDefault(cfg.IRD, 16), ORD: orDefault(cfg.ORD, 16), RetryCnt: 7, RNRRetry: 6,
	})
	if err != nil {
		return nil, err
	}
	p.Private = peer.PrivateData
	return p, nil
}

func (p *Peer) post(i int) error {
	_, err := p.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGEs: []verbs.SGE{{
		Addr: p.recv.Addr() + uint64(i*p.cfg.RecvSize), Length: uint32(p.cfg.RecvSize), LKey: p.recv.LKey(),
	}}}})
	return err
}

func (p *Peer) received(cq verbs.CQ) {
	p.rpoll.run(cq, func(wc *verbs.WC) {
		if u := p.pump.Load(); u != nil {
			u.received(wc)
			return
		}
		m := Msg{Status: wc.Status}
		if wc.Status == verbs.Success {
			at := int(wc.ID) * p.cfg.RecvSize
			m.Bytes = append([]byte(nil), p.recv.Bytes()[at:at+int(wc.ByteLen)]...)
			m.InvKey, m.Inv = wc.InvKey, wc.Flags&verbs.WCWithInv != 0
			if !p.hold {
				_ = p.post(int(wc.ID))
			}
		}
		p.msgs.Push(m)
	})
}

func (p *Peer) completed(cq verbs.CQ) {
	p.spoll.run(cq, func(wc *verbs.WC) {
		if u := p.pump.Load(); u != nil {
			u.sent(wc)
			return
		}
		p.sent.Push(*wc)
	})
}

// polling lets one caller at a time poll a queue; who comes meanwhile makes it look again.
type polling struct {
	calls atomic.Int64
	wc    [32]verbs.WC
}

func (l *polling) run(cq verbs.CQ, f func(*verbs.WC)) {
	if l.calls.Add(1) != 1 {
		return
	}
	for {
		calls := l.calls.Load()
		n, err := cq.Poll(l.wc[:])
		for i := range n {
			f(&l.wc[i])
		}
		if err == nil && (n > 0 || cq.Arm(false)) {
			continue
		}
		if l.calls.CompareAndSwap(calls, 0) {
			return
		}
	}
}

// Send sends b, at most SendSize bytes, and waits for its completion.
func (p *Peer) Send(ctx context.Context, b []byte) error {
	if err := p.Post(b, true); err != nil {
		return err
	}
	wc, err := p.sent.Pop(ctx)
	if err != nil {
		return err
	}
	if wc.Status != verbs.Success {
		return &verbs.WCError{Status: wc.Status, Op: verbs.OpSend}
	}
	return nil
}

// Post sends b without waiting; with signaled unset its completion is not seen either, and b must be the only
// one on its way.
func (p *Peer) Post(b []byte, signaled bool) error {
	n := copy(p.send.Bytes(), b)
	wr := verbs.SendWR{Op: verbs.OpSend, SGEs: []verbs.SGE{{Addr: p.send.Addr(), Length: uint32(n), LKey: p.send.LKey()}}}
	if signaled {
		wr.Flags = verbs.Signaled
	}
	_, err := p.qp.PostSend([]verbs.SendWR{wr})
	return err
}

// Recv waits for the next message.
func (p *Peer) Recv(ctx context.Context) (Msg, error) {
	m, err := p.msgs.Pop(ctx)
	if err != nil {
		return m, err
	}
	if m.Status != verbs.Success {
		return m, fmt.Errorf("%w: %v", ErrEnded, m.Status)
	}
	return m, nil
}

// TryRecv gives the next message if one has come.
func (p *Peer) TryRecv() (Msg, bool) { return p.msgs.TryPop() }

// HoldReceives stops posting receives again.
func (p *Peer) HoldReceives() { p.hold = true }

// Mem makes memory that the server may reach with the given rights. Close frees it.
func (p *Peer) Mem(n int, access verbs.Access) (verbs.MR, error) {
	mr, err := p.pd.AllocMR(n, access)
	if err == nil {
		p.mrs = append(p.mrs, mr)
	}
	return mr, err
}

// PD is the protection domain.
func (p *Peer) PD() verbs.PD { return p.pd }

// QP is the queue pair.
func (p *Peer) QP() verbs.QP { return p.qp }

// Disconnect ends the connection.
func (p *Peer) Disconnect() { _ = p.id.Disconnect() }

// Close ends the connection and frees all.
func (p *Peer) Close() {
	if p.id != nil {
		_ = p.id.Disconnect()
	}
	if p.qp != nil {
		_ = p.qp.Close()
	}
	if p.id != nil {
		_ = p.id.Close()
	}
	for _, cq := range []verbs.CQ{p.scq, p.rcq} {
		if cq != nil {
			_ = cq.Close()
		}
	}
	for _, mr := range append(p.mrs, p.recv, p.send) {
		if mr != nil {
			_ = mr.Close()
		}
	}
	p.mrs = nil
	if p.pd != nil && p.cfg.PD == nil {
		_ = p.pd.Close()
	}
}
