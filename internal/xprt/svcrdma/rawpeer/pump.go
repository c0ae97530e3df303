package rawpeer

import (
	"context"
	"errors"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Pump sends the same messages again and again, and counts the answers without a look at them. It allocates
// only when it is made. Nothing else may use the peer until it is done.
type Pump struct {
	p     *Peer
	wrs   [][1]verbs.SendWR
	recvs [][1]verbs.RecvWR
	done  *sched.Queue[verbs.Status]
}

// NewPump prepares messages, which together are at most 1 MiB.
func (p *Peer) NewPump(msgs ...[]byte) *Pump {
	u := &Pump{p: p, done: sched.NewQueue[verbs.Status](p.cfg.Sched, "an answer for the pump")}
	at := 0
	u.wrs = make([][1]verbs.SendWR, len(msgs))
	for i, m := range msgs {
		n := copy(p.send.Bytes()[at:], m)
		u.wrs[i][0] = verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, ID: uint64(i),
			SGEs: []verbs.SGE{{Addr: p.send.Addr() + uint64(at), Length: uint32(n), LKey: p.send.LKey()}}}
		at += n
	}
	u.recvs = make([][1]verbs.RecvWR, p.cfg.Recvs)
	for i := range u.recvs {
		u.recvs[i][0] = verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{{
			Addr: p.recv.Addr() + uint64(i*p.cfg.RecvSize), Length: uint32(p.cfg.RecvSize), LKey: p.recv.LKey()}}}
	}
	return u
}

// Run sends n messages, with depth of them outstanding.
func (u *Pump) Run(ctx context.Context, n, depth int) error {
	u.p.pump.Store(u)
	defer u.p.pump.Store(nil)
	sent := 0
	post := func() error {
		_, err := u.p.qp.PostSend(u.wrs[sent%len(u.wrs)][:])
		sent++
		return err
	}
	for sent < min(n, depth) {
		if err := post(); err != nil {
			return err
		}
	}
	for got := 0; got < n; got++ {
		st, err := u.done.Pop(ctx)
		if err != nil {
			return err
		}
		if st != verbs.Success {
			return errors.Join(ErrEnded, &verbs.WCError{Status: st, Op: verbs.OpRecv})
		}
		if sent < n {
			if err := post(); err != nil {
				return err
			}
		}
	}
	return nil
}

// received handles a receive completion while the pump runs.
func (u *Pump) received(wc *verbs.WC) {
	if wc.Status == verbs.Success {
		_, _ = u.p.qp.PostRecv(u.recvs[wc.ID][:])
	}
	u.done.Push(wc.Status)
}

// sent handles a send completion: only failures are of interest.
func (u *Pump) sent(wc *verbs.WC) {
	if wc.Status != verbs.Success {
		u.done.Push(wc.Status)
	}
}
