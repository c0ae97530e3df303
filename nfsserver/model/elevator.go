package model

import (
	"cmp"
	"fmt"
	"slices"

	"example.org/nfsrdma/internal/sched"
)

// Elevator is the order in which a spindle serves its queue.
type Elevator uint8

// The I/O schedulers of Linux, reduced to what they do to a single disk.
const (
	Noop     Elevator = iota // order of arrival
	Deadline                 // by place, upwards and round again, reads before writes; what is too old goes first
	CFQ                      // owners in turn; the disk waits for the next request of the owner whose turn it is
)

func (e Elevator) String() string {
	names := [...]string{"noop", "deadline", "cfq"}
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("Elevator(%d)", uint8(e))
}

// elevator is the queue of a spindle.
type elevator interface {
	add(r *request)
	// next takes a request off the queue, which is not empty; nil: the spindle stays idle until then, or
	// until another request comes.
	next(now sched.Time, head uint64) (r *request, then sched.Time)
	completed(r *request, now sched.Time)
}

func newElevator(c *DiskConfig) elevator {
	switch c.Elevator {
	case Deadline:
		return &deadline{expire: [2]sched.Duration{sched.FromStd(c.ReadExpire), sched.FromStd(c.WriteExpire)}, batch: c.FIFOBatch}
	case CFQ:
		return &cfq{queues: map[uint64][]*request{}, quantum: c.Quantum, idle: max(sched.FromStd(c.SliceIdle), 0)}
	}
	return &noop{}
}

type noop struct{ list []*request }

func (q *noop) add(r *request) { q.list = append(q.list, r) }

func (q *noop) next(sched.Time, uint64) (*request, sched.Time) {
	r := q.list[0]
	q.list = slices.Delete(q.list, 0, 1)
	return r, 0
}

func (q *noop) completed(*request, sched.Time) {}

// deadline has a queue for reads and one for writes.
type deadline struct {
	expire  [2]sched.Duration
	batch   int
	bySect  [2][]*request // by address
	fifo    [2][]*request // by arrival
	dir     int
	batched int
	starved int // batches of reads while writes waited
}

// writesStarved is how often reads may go before writes that wait (writes_starved).
const writesStarved = 2

func dirOf(r *request) int {
	if r.write {
		return 1
	}
	return 0
}

func (q *deadline) add(r *request) {
	d := dirOf(r)
	i, _ := slices.BinarySearchFunc(q.bySect[d], r.addr, func(x *request, a uint64) int {
		if x.addr <= a { // behind its equals
			return -1
		}
		return 1
	})
	q.bySect[d] = slices.Insert(q.bySect[d], i, r)
	q.fifo[d] = append(q.fifo[d], r)
}

func (q *deadline) next(now sched.Time, head uint64) (*request, sched.Time) {
	if q.batched == 0 || q.batched >= q.batch || len(q.bySect[q.dir]) == 0 {
		return q.newBatch(now, head), 0
	}
	r := q.upward(head)
	if r == nil {
		return q.newBatch(now, head), 0
	}
	q.batched++
	return q.take(r), 0
}

// newBatch chooses the direction, and begins with the oldest if that is too old.
func (q *deadline) newBatch(now sched.Time, head uint64) *request {
	q.dir, q.batched = 0, 1
	reads, writes := len(q.fifo[0]) > 0, len(q.fifo[1]) > 0
	if !reads || writes && q.starved >= writesStarved {
		q.dir, q.starved = 1, 0
	} else if writes {
		q.starved++
	}
	if old := q.fifo[q.dir][0]; now.Sub(old.at) > q.expire[q.dir] {
		return q.take(old)
	}
	r := q.upward(head)
	if r == nil {
		r = q.bySect[q.dir][0]
	}
	return q.take(r)
}

// upward is the first request at or above head; nil if there is none.
func (q *deadline) upward(head uint64) *request {
	l := q.bySect[q.dir]
	i, _ := slices.BinarySearchFunc(l, head, func(x *request, a uint64) int { return cmp.Compare(x.addr, a) })
	for i > 0 && l[i-1].addr == head {
		i--
	}
	if i == len(l) {
		return nil
	}
	return l[i]
}

func (q *deadline) take(r *request) *request {
	d := dirOf(r)
	same := func(x *request) bool { return x == r }
	q.bySect[d] = slices.DeleteFunc(q.bySect[d], same)
	q.fifo[d] = slices.DeleteFunc(q.fifo[d], same)
	return r
}

func (q *deadline) completed(*request, sched.Time) {}

// cfq has a queue for each owner.
type cfq struct {
	quantum int
	idle    sched.Duration
	queues  map[uint64][]*request
	turn    []uint64 // owners with requests, the active one not among them
	active  uint64
	has     bool // there is an active owner
	served  int  // in its turn
	until   sched.Time
}

func (q *cfq) add(r *request) {
	l := q.queues[r.owner]
	if len(l) == 0 && !(q.has && q.active == r.owner) {
		q.turn = append(q.turn, r.owner)
	}
	q.queues[r.owner] = append(l, r)
}

func (q *cfq) next(now sched.Time, _ uint64) (*request, sched.Time) {
	if q.has {
		l := q.queues[q.active]
		switch {
		case len(l) > 0 && q.served < q.quantum:
			return q.take(q.active), 0
		case len(l) == 0 && q.served < q.quantum && now < q.until:
			return nil, q.until
		}
		if len(l) > 0 {
			q.turn = append(q.turn, q.active)
		}
		q.has = false
	}
	q.active, q.has, q.served = q.turn[0], true, 0
	q.turn = slices.Delete(q.turn, 0, 1)
	return q.take(q.active), 0
}

func (q *cfq) take(owner uint64) *request {
	l := q.queues[owner]
	r := l[0]
	if len(l) == 1 {
		delete(q.queues, owner)
	} else {
		q.queues[owner] = l[1:]
	}
	q.served++
	return r
}

func (q *cfq) completed(r *request, now sched.Time) {
	if q.has && q.active == r.owner {
		q.until = now.Add(q.idle)
	}
}
