package conformance

import "example.org/nfsrdma/verbs"

// A client that is not ours has no tap of its own: what it sends is seen where the server receives it (wiretap.receives).

// tapCQ shows the tap what the server's receives bring.
type tapCQ struct {
	verbs.CQ
	t *wiretap
}

func (d *tapDevice) CreateCQ(init verbs.CQInit) (verbs.CQ, error) {
	if !d.t.receives {
		return d.Device.CreateCQ(init)
	}
	q := &tapCQ{t: d.t}
	if h := init.Handler; h != nil {
		init.Handler = func(verbs.CQ) { h(q) }
	}
	var err error
	q.CQ, err = d.Device.CreateCQ(init)
	return q, err
}

func untapped(q verbs.CQ) verbs.CQ {
	if t, ok := q.(*tapCQ); ok {
		return t.CQ
	}
	return q
}

func (q *tapCQ) Poll(wc []verbs.WC) (int, error) {
	n, err := q.CQ.Poll(wc)
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	for i := range wc[:n] {
		if wc[i].Op == verbs.OpRecv && wc[i].Status == verbs.Success {
			q.t.received(&wc[i])
		}
	}
	return n, err
}

// received notes a message of the client.
func (t *wiretap) received(wc *verbs.WC) {
	q := t.qps[wc.QPN]
	if q == nil {
		return
	}
	m := sent{from: client, conn: q.n, op: verbs.OpSend, bytes: t.copyOf(nil, q.bufs[wc.ID])}
	m.bytes = m.bytes[:min(int(wc.ByteLen), len(m.bytes))]
	m.decode()
	t.log = append(t.log, m)
}

// posts notes where the server's receives will be.
func (t *wiretap) posts(q *tapQP, wrs []verbs.RecvWR) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range wrs {
		if len(wrs[i].SGEs) > 0 {
			q.bufs[wrs[i].ID] = wrs[i].SGEs[0]
		}
	}
}
