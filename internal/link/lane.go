package link

import "example.org/nfsrdma/internal/sched"

// flight is a packet on its way.
type flight struct {
	at sched.Time // of arrival
	pk Packet
}

// lane is a FIFO of packets on their way; arrivals never decrease along it. A
// pipe has one for packets in order and one for reordered ones. Since all of the latter
// are late by the same time, no heap is needed.
type lane struct {
	p    *Pipe
	ring []flight // a power of two, grows to the most packets on their way
	head int
	n    int
}

func (l *lane) push(f flight) {
	if l.n == len(l.ring) {
		r := make([]flight, max(16, 2*len(l.ring)))
		for i := range l.n {
			r[i] = l.ring[(l.head+i)&(len(l.ring)-1)]
		}
		l.ring, l.head = r, 0
	}
	l.ring[(l.head+l.n)&(len(l.ring)-1)] = f
	l.n++
}

func (l *lane) pop() Packet {
	f := &l.ring[l.head]
	pk := f.pk
	f.pk = nil
	l.head = (l.head + 1) & (len(l.ring) - 1)
	l.n--
	return pk
}

// next is when the first packet arrives; l is not empty.
func (l *lane) next() sched.Time { return l.ring[l.head].at }

// Fire is the heap's call, in virtual time: the first packet has arrived. A
// lane that is not empty has one event in the heap, so an event that outlives
// Close finds nothing.
func (l *lane) Fire() {
	if l.n == 0 {
		return
	}
	pk := l.pop()
	if l.n > 0 {
		l.p.s.At(l.next(), l)
	}
	pk.Fire()
}
