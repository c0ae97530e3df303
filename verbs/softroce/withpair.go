package softroce

import (
	"context"
	"errors"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// Pair is a connected queue pair on a direct wire, with memory on both sides: for measuring the device alone.
type Pair struct {
	QP            verbs.QP
	CQ            verbs.CQ // of QP
	Local, Remote verbs.MR
}

// WithPair calls f with a pair whose regions have n bytes, and takes it down afterwards.
func WithPair(s *sched.Sched, n int, f func(*Pair) error) (err error) {
	ctx := context.Background()
	net := NewNetwork(s, NetConfig{})
	var undo []func() error
	defer func() {
		for i := len(undo) - 1; i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
	}()
	undo = append(undo, net.Close)
	type side struct {
		dev *Device
		pd  verbs.PD
		cq  verbs.CQ
		mr  verbs.MR
	}
	var sides [2]side
	for i, name := range []string{"pair0", "pair1"} {
		e := &sides[i]
		if e.dev, err = net.NewDevice(name, RoCE); err != nil {
			return err
		}
		undo = append(undo, e.dev.Close)
		if e.pd, err = e.dev.AllocPD(); err != nil {
			return err
		}
		undo = append(undo, e.pd.Close)
		if e.cq, err = e.dev.CreateCQ(verbs.CQInit{Depth: 64, Name: name}); err != nil {
			return err
		}
		undo = append(undo, e.cq.Close)
		if e.mr, err = e.pd.AllocMR(n, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite); err != nil {
			return err
		}
		undo = append(undo, e.mr.Close)
	}
	l, err := sides[1].dev.Listen("pair1:1", 1)
	if err != nil {
		return err
	}
	param := verbs.ConnParam{IRD: 16, ORD: 16, RetryCnt: 7}
	init := func(e *side) verbs.QPInit {
		return verbs.QPInit{SendCQ: e.cq, RecvCQ: e.cq, MaxSendWR: 32, MaxRecvWR: 1, Name: e.dev.name}
	}
	g := s.NewGroup("the pair's other side")
	var aerr error
	g.Go("accept", func() {
		var id verbs.ID
		if id, aerr = l.Accept(ctx); aerr != nil {
			return
		}
		undo = append(undo, id.Close)
		var q verbs.QP
		if q, aerr = id.CreateQP(sides[1].pd, init(&sides[1])); aerr != nil {
			return
		}
		undo = append(undo, q.Close)
		aerr = id.Accept(ctx, param)
	})
	id, err := sides[0].dev.Resolve(ctx, "pair1:1")
	if err == nil {
		defer func() { err = errors.Join(err, id.Close()) }()
		var q verbs.QP
		if q, err = id.CreateQP(sides[0].pd, init(&sides[0])); err == nil {
			defer func() { err = errors.Join(err, q.Close()) }()
			if _, err = id.Connect(ctx, param); err == nil {
				err = g.Wait(ctx)
			}
			if err == nil {
				err = aerr
			}
			if err == nil {
				err = f(&Pair{QP: q, CQ: sides[0].cq, Local: sides[0].mr, Remote: sides[1].mr})
			}
		}
	}
	err = errors.Join(err, l.Close(), g.Wait(ctx))
	return err
}
