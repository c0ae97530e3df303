package faults

import (
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// spawn runs an action in a task of its own: what triggers it must not wait.
func (x *Injector) spawn(st *state, f func(context.Context) error) {
	x.mu.Lock()
	stopped := x.stopped
	if !stopped {
		x.tasks.Add(1)
	}
	x.mu.Unlock()
	if stopped {
		return
	}
	x.s.Go("fault "+st.String(), func() {
		defer x.tasks.Done()
		if err := f(x.ctx); err != nil {
			x.failed(st, err)
		}
	})
}

func (x *Injector) failed(st *state, err error) {
	x.mu.Lock()
	x.errs = append(x.errs, fmt.Errorf("fault %v: %w", st.Fault, err))
	x.mu.Unlock()
}

// act does an action, and counts it if it had an effect.
func (x *Injector) act(_ context.Context, st *state) {
	d := x.sides[Client]
	if st.Side == Server {
		d = x.sides[Server]
	}
	ok := false
	switch {
	case st.Kind == Crash:
		if x.crash == nil {
			x.failed(st, errors.New("there is nothing to crash"))
			return
		}
		// Not the context that Stop ends: a crash that has begun ends with a server.
		if err := x.crash(sched.Cleanup, st.by()); err != nil {
			if x.on() { // otherwise what is being closed has ended it
				x.failed(st, err)
			}
			return
		}
		ok = true
	case d != nil:
		ok = d.act(st.Kind)
	}
	if ok {
		st.mu.Lock()
		st.done++
		st.mu.Unlock()
	}
}

// act does an action to the first live connection of the device, or to the device.
func (d *device) act(k Kind) bool {
	if k == Remove {
		r, ok := d.Device.(interface{ Remove() })
		if ok {
			r.Remove()
		}
		return ok
	}
	d.mu.Lock()
	var q *qp
	if len(d.qps) > 0 {
		q = d.qps[len(d.qps)-1]
	}
	d.mu.Unlock()
	if q == nil {
		return false
	}
	switch k {
	case QPError:
		return q.QP.Modify(verbs.QPAttr{State: verbs.Error}) == nil
	case CQOverflow:
		o, ok := q.init.SendCQ.(interface{ Overflow() })
		if ok {
			o.Overflow()
		}
		return ok
	case Disconnect:
		return q.id != nil && q.id.Disconnect() == nil
	case AddrChange:
		return q.id != nil && q.id.tell(verbs.CMAddrChange)
	}
	return false
}
