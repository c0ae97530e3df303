package softroce

import "example.org/nfsrdma/verbs"

// failPSN fails the entry that psn belongs to; all before it have their answers.
func (q *qp) failPSN(psn uint32, s verbs.Status) {
	for i := q.head.Load(); i < q.sentTo(); i++ {
		e := q.wqe(i)
		if e.usesWire() && psnDiff(psn, e.psn+e.npkt-1) <= 0 {
			q.failAt(i, s)
			return
		}
	}
}

// failAt completes what came before entry i with success, i with s, and flushes the rest.
func (q *qp) failAt(i uint64, s verbs.Status) {
	for h := q.head.Load(); h < i; h++ {
		q.wqe(h).done = true
	}
	q.next = max(q.next, i+1)
	q.wqe(i).done = false
	q.retire()
	q.failHead(s)
}

// failHead completes the oldest entry with s and moves to ERR.
func (q *qp) failHead(s verbs.Status) {
	h := q.head.Load()
	e := q.wqe(h)
	q.st.sendErr++
	q.revokeFlight() // before anybody hears of it
	q.complete(q.scq, &verbs.WC{ID: e.wr.ID, Status: s, Op: e.wr.Op}, true)
	e.forget()
	q.head.Store(h + 1)
	q.next = max(q.next, h+1)
	q.becomeError()
}

// flushSends completes all that is posted with WRFlushErr.
func (q *qp) flushSends(tail uint64) {
	h := q.head.Load()
	for ; h < tail; h++ {
		e := q.wqe(h)
		q.complete(q.scq, &verbs.WC{ID: e.wr.ID, Status: verbs.WRFlushErr, Op: e.wr.Op}, true)
		e.forget()
	}
	q.restart(h)
}

// restart leaves the send queue empty at entry h.
func (q *qp) restart(h uint64) {
	q.head.Store(h)
	q.ordMeter.Give(q.readsOut)
	q.next, q.nextPkt, q.hi, q.readsOut, q.waitTo = h, 0, h, 0, 0
}

// flushRecvs completes all receives with WRFlushErr; those of an SRQ stay.
func (q *qp) flushRecvs() {
	if q.has {
		q.has = false
		q.complete(q.rcq, &verbs.WC{ID: q.recv.id, Status: verbs.WRFlushErr, Op: verbs.OpRecv}, true)
	}
	if q.srq != nil {
		return
	}
	for {
		if ok, _ := q.rq.take(&q.recv); !ok {
			return
		}
		q.complete(q.rcq, &verbs.WC{ID: q.recv.id, Status: verbs.WRFlushErr, Op: verbs.OpRecv}, true)
	}
}
