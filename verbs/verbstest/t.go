package verbstest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"github.com/stretchr/testify/require"
)

// patience bounds every wait of a check, in the scheduler's time.
const patience = 20 * sched.Second

// T is what a check runs with: its environment, its failures, and a list of
// what it must close.
type T struct {
	TB
	*Env
	finished bool
	base     [2]verbs.Resources
	mu       sync.Mutex // of owned, dialed and ids: tasks of a check add to them
	owned    []closer
	dialed   []error // of dial
	guarded  []*mem
	ids      uint64
}

type closer interface{ Close() error }

func newT(tb TB, e *Env) *T {
	t := &T{TB: tb, Env: e}
	t.base = [2]verbs.Resources{e.Client.Resources(), e.Server.Resources()}
	return t
}

// own lets the end of the check close c, after whatever is owned later.
func (t *T) own(c closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owned = append(t.owned, c)
}

// disown forgets c, which the check closed itself.
func (t *T) disown(c closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range t.owned {
		if o == c {
			t.owned = append(t.owned[:i], t.owned[i+1:]...)
			return
		}
	}
}

// close closes c now.
func (t *T) close(c closer) {
	t.Helper()
	t.disown(c)
	require.NoError(t, c.Close(), "closing %T", c)
}

func (t *T) end() {
	t.Helper()
	good := t.finished && !t.Failed()
	if good {
		for _, m := range t.guarded {
			m.wantGuards()
		}
	}
	t.Client.OnEvent(nil)
	t.Server.OnEvent(nil)
	t.mu.Lock()
	owned := t.owned
	t.owned = nil
	t.mu.Unlock()
	for i := len(owned) - 1; i >= 0; i-- {
		if err := owned[i].Close(); err != nil && good {
			t.Errorf("closing %T: %v", owned[i], err)
		}
	}
	if !good {
		return
	}
	for i, d := range []verbs.Device{t.Client, t.Server} {
		if now := d.Resources(); now != t.base[i] {
			t.Errorf("%s: resources are %+v, were %+v at the start", d.Name(), now, t.base[i])
		}
	}
}

// must fails the check on err of a verb that every device has; what names it.
// Nothing skips here: a check says in its Needs what a device may lack.
func (t *T) must(err error, what string, args ...any) {
	t.Helper()
	if errors.Is(err, verbs.ErrUnsupported) {
		t.fatalf("%s, which every device must support: %v", fmt.Sprintf(what, args...), err)
	}
	if err != nil {
		t.fatalf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

// claimed is must for what the device's attributes or the Env promise.
func (t *T) claimed(err error, what string, args ...any) {
	t.Helper()
	if err != nil {
		t.fatalf("%s, which the device's attributes or the Env promise: %v", fmt.Sprintf(what, args...), err)
	}
}

// verb names the verb that gave err.
func verb(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (t *T) fatalf(format string, args ...any) {
	t.Helper()
	t.Errorf(format, args...)
	t.FailNow()
}

// nextID is a number for a work request.
func (t *T) nextID() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids++
	return t.ids
}

func (t *T) within(d sched.Duration) (context.Context, context.CancelFunc) {
	return t.Sched.WithTimeout(context.Background(), d)
}

// settle gives the device the time to do what it must not do. Nothing waits
// for it: a check that passes would pass without.
func (t *T) settle() {
	t.sleep(5 * sched.Millisecond)
}

func (t *T) sleep(d sched.Duration) {
	t.Helper()
	require.NoError(t, t.Sched.Sleep(context.Background(), d))
}

// job is a task whose end the check waits for.
type job struct {
	t    *T
	name string
	w    *sched.Waiter
	err  error
}

// start runs f as a task. It must not fail the check, but return the error.
func (t *T) start(name string, f func() error) *job {
	j := &job{t: t, name: name, w: t.Sched.NewWaiter("the end of " + name)}
	t.Sched.Go(name, func() {
		j.err = f()
		j.w.Wake()
	})
	return j
}

// wait returns the task's error.
func (j *job) wait() error {
	j.t.Helper()
	ctx, cancel := j.t.within(2 * patience)
	defer cancel()
	if err := j.w.Wait(ctx); err != nil {
		j.t.fatalf("%s did not end: %v", j.name, err)
	}
	return j.err
}

// asyncEvents holds the asynchronous events of a device.
type asyncEvents struct {
	t *T
	q *sched.Queue[verbs.AsyncEvent]
}

// deviceEvents collects the asynchronous events of d from now on.
func (t *T) deviceEvents(d verbs.Device) *asyncEvents {
	a := &asyncEvents{t, sched.NewQueue[verbs.AsyncEvent](t.Sched, "an asynchronous event")}
	d.OnEvent(func(e verbs.AsyncEvent) { a.q.Push(e) })
	return a
}

// want waits for an event of the type, and drops others.
func (a *asyncEvents) want(typ verbs.AsyncEventType) verbs.AsyncEvent {
	a.t.Helper()
	ctx, cancel := a.t.within(patience)
	defer cancel()
	for {
		e, err := a.q.Pop(ctx)
		if err != nil {
			a.t.fatalf("no event %v: %v", typ, err)
		}
		if e.Type == typ {
			return e
		}
	}
}

// count takes the events that are there and counts those of the type.
func (a *asyncEvents) count(typ verbs.AsyncEventType) int {
	n := 0
	for {
		e, ok := a.q.TryPop()
		if !ok {
			return n
		}
		if e.Type == typ {
			n++
		}
	}
}

// counter is the sum of the named counter on both devices.
func (t *T) counter(name string) (sum uint64, ok bool) {
	devs := []verbs.Device{t.Client, t.Server}
	if t.Client == t.Server {
		devs = devs[:1]
	}
	for _, d := range devs {
		for _, c := range d.Counters() {
			if c.Name == name {
				sum += c.Value
				ok = true
			}
		}
	}
	return sum, ok
}
