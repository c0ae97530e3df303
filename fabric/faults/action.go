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
func (x *Injector) act(st *state) {
	d := x.sides[Client]
	if st.Side == Server {
		d = x.sides[Server]
	}
	ok := false
	var err error
	switch {
	case st.Kind == Crash:
		if x.owner.Crash == nil {
			err = errors.New("there is nothing to crash")
			break
		}
		// Not the context that Stop ends: a crash that has begun ends with a server.
		err = x.owner.Crash(sched.Cleanup, st.by())
		ok = err == nil
	case d == nil:
	case st.Kind == Remove:
		err = d.remove(st)
	default:
		ok = d.act(st.Kind)
		if !ok && st.Kind == Disconnect && x.owner.Disconnect != nil {
			ok = x.owner.Disconnect(d.side)
		}
	}
	if err != nil && x.on() && !x.sides[Server].away() { // otherwise what is being closed has ended it, or there is no device for a server
		x.failed(st, err)
	}
	if ok {
		st.had()
	}
}

// had counts an effect of an action.
func (st *state) had() {
	st.mu.Lock()
	st.done++
	st.mu.Unlock()
}

// remove takes the device away, and brings it back if it is to come back: also when faults have ended meanwhile.
func (d *device) remove(st *state) error {
	r, ok := d.Device.(interface{ Remove() })
	p, back := d.Device.(interface{ Plug() })
	if !ok || st.By > 0 && !back {
		return nil
	}
	st.had()
	if st.By == 0 {
		d.mu.Lock()
		d.removals++ // for good
		d.mu.Unlock()
		r.Remove()
		return nil
	}
	d.mu.Lock()
	d.removals++
	first := d.removals == 1
	d.mu.Unlock()
	if first { // it stays away as long as one of several wants it
		r.Remove()
	}
	if d.x.s.Sleep(sched.Cleanup, sched.FromStd(st.By)) != nil {
		return nil // the scheduler was closed
	}
	d.mu.Lock()
	d.removals--
	last := d.removals == 0
	d.mu.Unlock()
	if !last {
		return nil
	}
	p.Plug()
	if d.side == Server && d.x.owner.Restart != nil {
		return d.x.owner.Restart(sched.Cleanup)
	}
	return nil
}

// away says whether the device has been taken away.
func (d *device) away() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.removals > 0
}

// act does an action to the last connection of the device.
func (d *device) act(k Kind) bool {
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
