package link

import (
	"math/rand/v2"
	"sync"

	"example.org/nfsrdma/internal/sched"
)

// Packet is what a pipe carries, pooled by its owner. The pipe holds it from Send
// until it calls Fire or Drop, one of them and once.
type Packet interface {
	sched.Event // Fire: it has arrived

	// Clone copies the packet, for duplication. It must not call the pipe.
	Clone() Packet

	// Drop gives a packet back that will not arrive.
	Drop()
}

// Stats counts what a pipe did. Without duplication, each packet given to Send
// is in one of Packets, Dropped and Flushed, or in Packets and then in Flushed.
type Stats struct {
	Packets    uint64         // sent by the port
	Bytes      uint64         // their payload
	WireBytes  uint64         // with Overhead
	Dropped    uint64         // not sent: the queue was full
	Lost       uint64         // sent, and lost on the way
	Duplicated uint64         // copies made on the way
	Reordered  uint64         // packets and copies that were delayed
	Flushed    uint64         // dropped by Close or after it
	Busy       sched.Duration // how long the port has been sending
}

// Pipe is one direction of a link. In virtual time it belongs to the scheduler's tasks, events and
// callers; live, any goroutine may use it. The owner closes it.
type Pipe struct {
	s       *sched.Sched
	cfg     Config
	delay   sched.Duration
	reorder sched.Duration
	faulty  bool // any probability is not 0

	mu      sync.Mutex // all below; live only
	rand    *rand.Rand
	port    port
	inOrder lane
	late    lane // reordered
	stats   Stats
	meter   *sched.Meter
	closed  bool

	live *live // nil in virtual time
}

// NewPipe makes one direction of the link cfg, which must be valid. Its random
// numbers are those of s.Rand("link "+name).
func NewPipe(s *sched.Sched, cfg Config, name string) *Pipe {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	p := &Pipe{
		s: s, cfg: cfg,
		delay:   sched.FromStd(cfg.Delay),
		reorder: sched.FromStd(cfg.ReorderDelay),
		faulty:  cfg.Loss > 0 || cfg.Duplicate > 0 || cfg.Reorder > 0,
		rand:    s.Rand("link " + name),
		port:    newPort(&cfg),
	}
	if cfg.BitsPerSecond > 0 {
		p.meter = s.NewMeter(sched.Usage{Name: "the link " + name, Knob: "BitsPerSecond, MTU and Overhead of Link", Level: sched.LevelLink, Units: 1})
	}
	if p.reorder == 0 {
		o := newPort(&cfg)
		p.reorder = max(o.take(4*(cfg.mtu()+cfg.Overhead)), 10*sched.Microsecond)
	}
	p.inOrder.p, p.late.p = p, p
	if !s.Virtual() {
		p.live = newLive(p)
	}
	return p
}

// Config is what the pipe was made with.
func (p *Pipe) Config() Config { return p.cfg }

// Send gives pk to the port, which sends it after earlier ones; the pipe then
// calls its Fire when it arrives, never from within Send. payload is in bytes and not compared with
// the MTU. Drop may be called from within Send.
func (p *Pipe) Send(payload int, pk Packet) {
	p.lock()
	ok := p.send(max(payload, 0), pk)
	p.unlock()
	if !ok {
		pk.Drop()
	}
}

// send is false if pk is not on its way.
func (p *Pipe) send(payload int, pk Packet) bool {
	if p.closed {
		p.stats.Flushed++
		return false
	}
	now := p.s.Now()
	wire := payload + p.cfg.Overhead
	from := max(now, p.port.free)
	end, ok := p.port.send(now, wire)
	if !ok {
		p.stats.Dropped++
		return false
	}
	p.meter.Use(end.Sub(from))
	p.stats.Packets++
	p.stats.Bytes += uint64(payload)
	p.stats.WireBytes += uint64(wire)
	at := end.Add(p.delay)
	if !p.faulty {
		p.start(&p.inOrder, now, at, pk)
		return true
	}
	if p.hit(p.cfg.Loss) {
		p.stats.Lost++
		return false
	}
	if p.hit(p.cfg.Duplicate) {
		p.stats.Duplicated++
		p.perhapsLate(now, at, pk.Clone())
	}
	p.perhapsLate(now, at, pk)
	return true
}

func (p *Pipe) hit(prob float64) bool { return prob > 0 && p.rand.Float64() < prob }

func (p *Pipe) perhapsLate(now, at sched.Time, pk Packet) {
	if p.hit(p.cfg.Reorder) {
		p.stats.Reordered++
		p.start(&p.late, now, at.Add(p.reorder), pk)
		return
	}
	p.start(&p.inOrder, now, at, pk)
}

// start puts pk on its way.
func (p *Pipe) start(l *lane, now, at sched.Time, pk Packet) {
	l.push(flight{at, pk})
	switch {
	case p.live != nil:
		p.live.arm(now, at)
	case l.n == 1:
		p.s.At(at, l)
	}
}

// Stats is what the pipe did until now.
func (p *Pipe) Stats() Stats {
	p.lock()
	defer p.unlock()
	st := p.stats
	st.Busy = p.port.busyUntil(p.s.Now())
	return st
}

// Close drops the packets on their way and all that are sent later. Live, one packet may be
// arriving while it returns. Close may be called again.
func (p *Pipe) Close() {
	p.lock()
	if !p.closed {
		p.meter.Close()
	}
	p.closed = true
	a, b := p.inOrder, p.late
	p.inOrder, p.late = lane{p: p}, lane{p: p}
	p.stats.Flushed += uint64(a.n + b.n)
	if p.live != nil {
		p.live.timer.Stop()
	}
	p.unlock()
	for _, l := range []*lane{&a, &b} {
		for l.n > 0 {
			l.pop().Drop()
		}
	}
}

func (p *Pipe) lock() {
	if p.live != nil {
		p.mu.Lock()
	}
}

func (p *Pipe) unlock() {
	if p.live != nil {
		p.mu.Unlock()
	}
}

// FreeAt is when the port will have sent all that it was given.
func (p *Pipe) FreeAt() sched.Time {
	p.lock()
	defer p.unlock()
	return p.port.free
}
