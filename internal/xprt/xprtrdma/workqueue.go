package xprtrdma

import (
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// WorkCost is what the client's CPUs add to a reply: it waits for SoftIRQ, and is then queued as work; the worker
// runs Wake after the first reply was queued, and takes all that are there by then. Credits, and the callers who
// wait for slots, come back from there. The zero value adds nothing.
type WorkCost struct{ SoftIRQ, Wake sched.Duration }

// workQueue has the replies of a connection on their way to its worker. Its owner is the receive handler's run.
type workQueue struct {
	h     *cqHandler
	cost  WorkCost
	timer *sched.Timer
	irq   workList // in soft interrupts
	ready workList // queued
	at    sched.Time
	meter *sched.Meter
}

type work struct {
	came sched.Time
	wc   verbs.WC
}

// workList is a FIFO whose storage is kept.
type workList struct {
	all  []work
	head int
}

func (l *workList) push(w work) {
	if l.head > 0 && len(l.all) == cap(l.all) {
		l.all = l.all[:copy(l.all, l.all[l.head:])]
		l.head = 0
	}
	l.all = append(l.all, w)
}

func (l *workList) first() *work {
	if l.head == len(l.all) {
		l.all, l.head = l.all[:0], 0
		return nil
	}
	return &l.all[l.head]
}

func newWorkQueue(h *cqHandler) *workQueue {
	x := h.e.x
	w := &workQueue{h: h, cost: x.cfg.Work}
	w.timer = x.s.NewTimer(func() { h.run(nil) })
	w.meter = x.s.NewMeter(sched.Usage{Name: "the client's work queue", Knob: "WakeTime, HighPri (WQ_HIGHPRI of xprtiod)", Level: sched.LevelClientSQ, Units: len(x.reqs)})
	return w
}

// push takes a completion. A failed one need not wait.
func (w *workQueue) push(wc *verbs.WC) {
	if wc.Status != verbs.Success {
		w.h.f(wc)
		return
	}
	w.meter.Take(1)
	w.irq.push(work{w.h.e.x.s.Now(), *wc})
}

// step does what is due, and sets the timer for what is not.
func (w *workQueue) step() {
	s := w.h.e.x.s
	for {
		now := s.Now()
		q := w.irq.first()
		for ; q != nil && q.came.Add(w.cost.SoftIRQ) <= now; q = w.irq.first() {
			if w.ready.first() == nil {
				w.at = now.Add(w.cost.Wake)
			}
			w.ready.push(*q)
			w.irq.head++
		}
		switch r := w.ready.first(); {
		case r != nil && w.at <= now:
			w.drain(now)
			continue // what it did may have brought more
		case r != nil && (q == nil || w.at <= q.came.Add(w.cost.SoftIRQ)):
			w.timer.Reset(w.at.Sub(now))
		case q != nil:
			w.timer.Reset(q.came.Add(w.cost.SoftIRQ).Sub(now))
		}
		return
	}
}

// drain is a run of the worker.
func (w *workQueue) drain(now sched.Time) {
	x := w.h.e.x
	x.stats.workRuns.Add(1)
	for r := w.ready.first(); r != nil; r = w.ready.first() {
		w.ready.head++
		wc := r.wc
		w.meter.Give(1)
		w.meter.Waited(now.Sub(r.came))
		w.h.f(&wc)
	}
}

func (w *workQueue) close() {
	if w != nil {
		w.timer.Stop()
		w.meter.Close()
	}
}
