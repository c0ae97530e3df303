package fabric

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/nfsrdma/internal/sched"
)

// Errors of waits, matched with errors.Is.
var (
	ErrClosed  = sched.ErrClosed  // the fabric is closed
	ErrStopped = sched.ErrAborted // a task of Go has called t.FailNow
)

// DeadlockError says that nothing is left to happen in virtual time although somebody waits.
type DeadlockError = sched.DeadlockError

// TimeLimitError says that virtual time has passed Params.TimeLimit.
type TimeLimitError = sched.TimeLimitError

// LivelockError says that one instant of virtual time has had more turns than Params.InstantLimit.
type LivelockError = sched.LivelockError

// StuckError says that a task has not come back to the fabric within Params.TaskLimit.
type StuckError = sched.StuckError

// closeInstant is the InstantLimit of Close, at most.
const closeInstant = 1 << 20

// closeGrace is how long Close waits for tasks of Go whose calls it has ended, in the fabric's time.
const closeGrace = 10 * time.Second

// Close unmounts, stops the server and checks that nothing is left: no task, no
// memory region, no DMA mapping, no queue, no lent page. It may come at any time: calls in
// flight end with errors, and tasks of Go have ten seconds to end after their calls. A task cannot close its fabric.
func (f *Fabric) Close() error {
	if f.s.InTask() {
		return errors.New("fabric: Close called by a task, which it would have to end")
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return f.closeErr
	}
	f.closed = true
	mounts := slices.Clone(f.mounts)
	dialing := slices.Clone(f.dialing)
	f.mu.Unlock()
	if f.params.TimeLimit > 0 { // Closing takes time, too.
		f.s.SetLimit(f.s.Now().Add(sched.FromStd(f.params.TimeLimit)))
	}
	if f.params.InstantLimit > 0 {
		f.s.SetInstantLimit(min(f.params.InstantLimit, closeInstant))
	}
	for _, d := range dialing {
		d.cancel()
	}
	var errs []error
	add := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if f.faults != nil {
		add("faults", f.faults.Stop(sched.Cleanup))
		add("fault points", f.faults.Unfired())
	}
	for _, m := range mounts {
		add("unmount", m.nfs.Close())
	}
	if srv := f.NFSServer(); srv != nil {
		add("server", srv.Close())
	}
	add("mounts that are being made", f.dials.Wait(sched.Cleanup))
	errs = append(errs, f.endTasks())
	stopped := f.s.Aborted()
	// Tasks that still wait, such as a load that was cut off, end here.
	serr := f.s.Close()
	var stuck *StuckError
	if errors.As(serr, &stuck) { // Who did not come back may still use everything.
		f.closeErr = errors.Join(append(errs, serr)...)
		return f.closeErr
	}
	if stopped { // Calls were torn off in the middle, and what they held is left.
		f.closeErr = serr
		return serr
	}
	add("scheduler", serr)
	errs = append(errs, f.closeDevices())
	f.closeErr = errors.Join(errs...)
	return f.closeErr
}

// endTasks waits for the tasks of Go, which find everything closed.
func (f *Fabric) endTasks() error {
	ctx, cancel := f.WithTimeout(f.ctx, closeGrace)
	defer cancel()
	if f.tasks.Wait(ctx) == nil {
		return nil
	}
	if n := f.tasks.Count(); n > 0 {
		return fmt.Errorf("%d tasks of Go have not ended:\n\t%s", n, strings.Join(f.s.Tasks(), "\n\t"))
	}
	return nil
}

func (f *Fabric) closeDevices() error {
	var errs []error
	f.tcp.close()
	errs = append(errs, f.dev.close())
	if p, ok := f.raw.(interface{ Pinned() int }); ok {
		if n := p.Pinned(); n != 0 {
			errs = append(errs, fmt.Errorf("%d pages of the file system are still lent", n))
		}
	}
	if c, ok := f.raw.(interface{ CheckConsistent() error }); ok {
		if err := c.CheckConsistent(); err != nil {
			errs = append(errs, fmt.Errorf("file system: %w", err))
		}
	}
	return errors.Join(errs...)
}
