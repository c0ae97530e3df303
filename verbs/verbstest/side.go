package verbstest

import (
	"context"
	"errors"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

// side is one end of a connection, with its objects.
type side struct {
	t        *T
	name     string
	dev      verbs.Device
	attr     verbs.DeviceAttr
	pd       verbs.PD
	scq, rcq verbs.CQ
	init     verbs.QPInit
	conn     verbs.ConnParam
	id       verbs.ID
	qp       verbs.QP
	events   *sched.Queue[verbs.CMEventType]
	early    func(*side) error // before Connect or Accept
}

// opts changes what a side is made with.
type opts struct {
	pd    verbs.PD
	init  func(*verbs.QPInit)
	conn  func(*verbs.ConnParam)
	early func(*side) error // after CreateQP, before Connect or Accept; in a task
}

const (
	depth   = 64 // default depth of queues
	cqDepth = 4 * depth
)

func (t *T) newPD(d verbs.Device) verbs.PD {
	t.Helper()
	pd, err := d.AllocPD()
	t.must(err, "AllocPD")
	t.own(pd)
	return pd
}

func (t *T) newCQ(d verbs.Device, init verbs.CQInit) verbs.CQ {
	t.Helper()
	cq, err := d.CreateCQ(init)
	t.must(err, "CreateCQ")
	t.own(cq)
	return cq
}

// newSide makes everything but the queue pair.
func (t *T) newSide(name string, d verbs.Device, o opts) *side {
	t.Helper()
	s := &side{t: t, name: name, dev: d, attr: d.Attr(), pd: o.pd, early: o.early}
	if s.pd == nil {
		s.pd = t.newPD(d)
	}
	s.init = verbs.QPInit{
		MaxSendWR:  min(depth, s.attr.MaxQPWR),
		MaxRecvWR:  min(depth, s.attr.MaxQPWR),
		MaxSendSGE: min(4, s.attr.MaxSGE),
		MaxRecvSGE: min(4, s.attr.MaxSGE),
		Name:       name,
	}
	s.conn = verbs.ConnParam{
		IRD:      min(4, s.attr.MaxQPRdAtom),
		ORD:      min(4, s.attr.MaxQPInitRdAtom),
		RetryCnt: 7,
	}
	if o.init != nil {
		o.init(&s.init)
	}
	if o.conn != nil {
		o.conn(&s.conn)
	}
	if s.init.SendCQ == nil {
		s.init.SendCQ = t.newCQ(d, verbs.CQInit{Depth: min(cqDepth, s.attr.MaxCQE), Name: name + " send"})
	}
	if s.init.RecvCQ == nil {
		s.init.RecvCQ = t.newCQ(d, verbs.CQInit{Depth: min(cqDepth, s.attr.MaxCQE), Name: name + " receive"})
	}
	s.scq, s.rcq = s.init.SendCQ, s.init.RecvCQ
	s.events = sched.NewQueue[verbs.CMEventType](t.Sched, "a connection event of the "+name)
	return s
}

// createQP is for id, which it takes over.
func (s *side) createQP(id verbs.ID) error {
	s.t.own(id)
	s.id = id
	id.OnEvent(func(e verbs.CMEventType) { s.events.Push(e) })
	qp, err := id.CreateQP(s.pd, s.init)
	if err != nil {
		return verb("ID.CreateQP", err)
	}
	s.t.own(qp)
	s.qp = qp
	if s.early != nil {
		return s.early(s)
	}
	return nil
}

func (t *T) listen() verbs.Listener {
	t.Helper()
	l, err := t.Server.Listen(t.ServerAddr(), 16)
	t.must(err, "Listen")
	t.own(l)
	return l
}

// link connects c to s through l.
func (t *T) link(l verbs.Listener, c, s *side) {
	t.Helper()
	ctx, cancel := t.within(patience)
	defer cancel()
	accept := t.start("accept", func() error {
		err := s.accept(ctx, l)
		if err != nil {
			cancel() // Connect may wait for it
		}
		return err
	})
	err := verb("connecting the "+c.name, c.connect(ctx, l.Addr()))
	if err != nil {
		cancel()
	}
	t.must(errors.Join(err, verb("accepting at the "+s.name, accept.wait())), "no connection")
}

func (s *side) accept(ctx context.Context, l verbs.Listener) error {
	id, err := l.Accept(ctx)
	if err != nil {
		return verb("Listener.Accept", err)
	}
	if err := s.createQP(id); err != nil {
		return err
	}
	if err := s.postHello(); err != nil {
		return err
	}
	return verb("ID.Accept", id.Accept(ctx, s.conn))
}

func (s *side) connect(ctx context.Context, addr string) error {
	id, err := s.dev.Resolve(ctx, addr)
	if err != nil {
		return verb("Resolve", err)
	}
	if err := s.createQP(id); err != nil {
		return err
	}
	_, err = id.Connect(ctx, s.conn)
	return verb("Connect", err)
}

// connect makes a connection from the client to the server.
func (t *T) connect(co, so opts) (c, s *side) {
	t.Helper()
	c = t.newSide("client", t.Client, co)
	s = t.newSide("server", t.Server, so)
	l := t.listen()
	t.link(l, c, s)
	t.close(l)
	t.hello(c, s)
	return c, s
}

// On iWARP the first message comes from the initiator; the server may not send before it.
func (s *side) postHello() error {
	if s.attr.Transport != verbs.IWARP || s.init.SRQ != nil {
		return nil
	}
	_, err := s.qp.PostRecv([]verbs.RecvWR{{ID: helloID}})
	return verb("PostRecv", err)
}

const helloID = 1 << 40

func (t *T) hello(c, s *side) {
	t.Helper()
	if t.Server.Attr().Transport != verbs.IWARP || s.init.SRQ != nil {
		return
	}
	c.do(verbs.SendWR{Op: verbs.OpSend})
	var wc [1]verbs.WC // not by Wait: the queue may have a handler
	for range 20000 {
		n, err := s.rcq.Poll(wc[:])
		t.must(err, "Poll")
		if n == 1 {
			require.EqualValues(t, helloID, wc[0].ID)
			return
		}
		t.sleep(100 * sched.Microsecond)
	}
	t.fatalf("the initiator's first message did not come")
}

// connectIn makes a connection within domains that exist.
func (t *T) connectIn(cpd, spd verbs.PD) (c, s *side) {
	t.Helper()
	return t.connect(opts{pd: cpd}, opts{pd: spd})
}

// rawPair makes two queue pairs and moves both to RTS by Modify.
func (t *T) rawPair(co, so opts, cattr, sattr func(*verbs.QPAttr)) (c, s *side) {
	t.Helper()
	c, s = t.rawQP("client", t.Client, co), t.rawQP("server", t.Server, so)
	c.toRTS(s, cattr)
	s.toRTS(c, sattr)
	return c, s
}

func (t *T) rawQP(name string, d verbs.Device, o opts) *side {
	t.Helper()
	s := t.newSide(name, d, o)
	qp, err := s.pd.CreateQP(s.init)
	t.claimed(err, "PD.CreateQP")
	t.own(qp)
	s.qp = qp
	return s
}

// rawAttr is what a side and its peer agree on without a connection manager.
func (s *side) rawAttr(peer *side) verbs.QPAttr {
	a := verbs.QPAttr{
		Access:   verbs.RemoteRead | verbs.RemoteWrite,
		DestAddr: s.t.DeviceAddr(peer.dev), DestQPN: peer.qp.Num(),
		IRD: s.conn.IRD, ORD: s.conn.ORD,
		MinRNR:  12, // 0.64 ms
		Timeout: 12, // 17 ms
		RQPSN:   0x1234, SQPSN: 0x1234,
		RetryCnt: s.conn.RetryCnt, RNRRetry: s.conn.RNRRetry,
	}
	return a
}

func (s *side) toRTS(peer *side, change func(*verbs.QPAttr)) {
	s.t.Helper()
	a := s.rawAttr(peer)
	if change != nil {
		change(&a)
	}
	for _, st := range []verbs.QPState{verbs.Init, verbs.RTR, verbs.RTS} {
		a.State = st
		s.t.claimed(s.qp.Modify(a), "Modify of the %s to %v", s.name, st)
	}
}

// sinkAccess is what the sink of an RDMA READ needs: remote write too on iWARP.
func (s *side) sinkAccess() verbs.Access {
	if s.attr.Transport == verbs.IWARP {
		return verbs.LocalWrite | verbs.RemoteWrite
	}
	return verbs.LocalWrite
}
