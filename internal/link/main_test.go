package link

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"example.org/nfsrdma/internal/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// world is a scheduler with one pipe and what became of its packets.
type world struct {
	t       *testing.T
	s       *sched.Sched
	p       *Pipe
	arrived []arrival
	dropped []int
	onFire  func(*pkt)
}

type arrival struct {
	id   int
	copy bool
	at   sched.Time
}

// pkt is for virtual time: it has no lock.
type pkt struct {
	w    *world
	id   int
	copy bool
	ends int
}

func (k *pkt) end() {
	if k.ends++; k.ends != 1 {
		k.w.t.Errorf("packet %d ended %d times", k.id, k.ends)
	}
}

func (k *pkt) Fire() {
	k.end()
	k.w.arrived = append(k.w.arrived, arrival{k.id, k.copy, k.w.s.Now()})
	if k.w.onFire != nil {
		k.w.onFire(k)
	}
}

func (k *pkt) Drop() {
	k.end()
	k.w.dropped = append(k.w.dropped, k.id)
}

func (k *pkt) Clone() Packet { return &pkt{w: k.w, id: k.id, copy: true} }

func newWorld(t *testing.T, seed uint64, cfg Config) *world {
	t.Helper()
	w := &world{t: t, s: sched.NewVirtual(seed)}
	w.p = NewPipe(w.s, cfg, "a to b")
	t.Cleanup(func() {
		w.p.Close()
		if err := w.s.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) send(id, payload int) { w.p.Send(payload, &pkt{w: w, id: id}) }

// runTo lets virtual time go on to at.
func (w *world) runTo(at sched.Duration) {
	w.t.Helper()
	if err := w.s.Sleep(bg, at-sched.Duration(w.s.Now())); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ids() []int {
	var ids []int
	for _, a := range w.arrived {
		ids = append(ids, a.id)
	}
	return ids
}
