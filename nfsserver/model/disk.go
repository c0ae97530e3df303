package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"example.org/nfsrdma/internal/sched"
)

// DiskConfig describes an array of equal disks. The zero value is one disk that takes no time.
type DiskConfig struct {
	Name     string // in reports; default "disk"
	Spindles int    // disks of the array (RAID 0); default 1
	Chunk    int    // bytes on a spindle before the next one's turn (md chunk); default 64 KiB
	Random   bool   // a chunk lies on a random spindle, not in turn

	// Time of a request: PerRequest, for one that does not follow its predecessor on the spindle also the
	// seek and the rotation, and PerByte.
	PerRequest  time.Duration // controller, command
	SeekTrack   time.Duration // to the next track
	SeekFull    time.Duration // across the whole disk; between the two by the root of the distance
	RPM         int           // a random part of a turn is waited for; 0: none
	PerByte     int           // picoseconds; 10,000 is 100 MB/s
	Capacity    uint64        // bytes of a spindle, for the distance; default 1 TB
	Exponential bool          // the time is random, exponential with that mean

	Elevator    Elevator
	MaxRequest  int           // bytes; larger ones are cut (max_sectors_kb); default 512 KiB
	ReadExpire  time.Duration // Deadline: age at which a read goes first (read_expire); default 500 ms
	WriteExpire time.Duration // Deadline: (write_expire); default 5 s
	FIFOBatch   int           // Deadline: requests in sector order before ages are looked at (fifo_batch); default 16
	Quantum     int           // CFQ: requests of one owner in a row (cfq_quantum); default 8
	SliceIdle   time.Duration // CFQ: wait for the owner's next request (slice_idle); default 8 ms, negative none
}

func (c *DiskConfig) setDefaults() error {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	defTime := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	if c.Name == "" {
		c.Name = "disk"
	}
	def(&c.Spindles, 1)
	def(&c.Chunk, 64<<10)
	def(&c.MaxRequest, 512<<10)
	def(&c.FIFOBatch, 16)
	def(&c.Quantum, 8)
	defTime(&c.ReadExpire, 500*time.Millisecond)
	defTime(&c.WriteExpire, 5*time.Second)
	defTime(&c.SliceIdle, 8*time.Millisecond)
	if c.Capacity == 0 {
		c.Capacity = 1e12
	}
	if c.Elevator > CFQ {
		return fmt.Errorf("model: Disk.Elevator is %d, must be Noop, Deadline or CFQ", c.Elevator)
	}
	for _, k := range []struct {
		name      string
		v, lo, hi int64
	}{
		{"Spindles", int64(c.Spindles), 1, 4096},
		{"Chunk (md chunk) in bytes", int64(c.Chunk), 512, 1 << 30},
		{"MaxRequest (max_sectors_kb) in bytes", int64(c.MaxRequest), 512, 1 << 30},
		{"PerRequest in ns", int64(c.PerRequest), 0, int64(time.Minute)},
		{"SeekTrack in ns", int64(c.SeekTrack), 0, int64(time.Minute)},
		{"SeekFull in ns", int64(c.SeekFull), int64(c.SeekTrack), int64(time.Minute)},
		{"PerByte in ps", int64(c.PerByte), 0, 1e9},
		{"RPM", int64(c.RPM), 0, 1e6},
		{"Quantum (cfq_quantum)", int64(c.Quantum), 1, 1 << 20},
		{"FIFOBatch (fifo_batch)", int64(c.FIFOBatch), 1, 1 << 20},
	} {
		if k.v < k.lo || k.v > k.hi {
			return fmt.Errorf("model: Disk.%s is %d, must be %d to %d", k.name, k.v, k.lo, k.hi)
		}
	}
	return nil
}

// DiskStats counts what an array did.
type DiskStats struct {
	Reads, Writes uint64         // requests, after cutting
	Bytes         uint64         // of both
	Seeks         uint64         // requests that did not follow their predecessor
	Busy          sched.Duration // sum over the spindles
	Waited        sched.Duration // sum over the requests: from arrival until the spindle's work on it begins
	Idled         sched.Duration // CFQ: spindles that waited for an owner's next request while others were queued
	MaxQueue      int            // most requests that waited for one spindle
}

// Disk is an array of spindles with a queue each.
type Disk struct {
	s   *sched.Sched
	cfg DiskConfig

	mu    sync.Mutex
	rand  *rand.Rand
	spin  []*spindle
	st    DiskStats
	place map[uint64]int // Random: of each chunk
}

// NewDisk makes an array.
func NewDisk(s *sched.Sched, cfg DiskConfig) (*Disk, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	d := &Disk{s: s, cfg: cfg, rand: s.Rand("disk " + cfg.Name), place: map[uint64]int{}}
	for i := range cfg.Spindles {
		p := &spindle{d: d, queue: newElevator(&d.cfg)}
		p.meter = s.NewMeter(sched.Usage{Name: fmt.Sprintf("spindle %d of %s", i, cfg.Name), Knob: "WithDisk", Level: levelDisk, Units: 1})
		p.done = s.NewTimer(p.complete)
		p.idle = s.NewTimer(p.resume)
		d.spin = append(d.spin, p)
	}
	return d, nil
}

// Stats is what the array did so far.
func (d *Disk) Stats() DiskStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.st
}

// request is one transfer of a spindle.
type request struct {
	write bool
	owner uint64
	addr  uint64 // on the spindle
	n     int
	at    sched.Time // of arrival
	io    *transfer
}

// transfer is one IO, in one or more requests.
type transfer struct {
	left   int // guarded by Disk.mu
	waiter *sched.Waiter
}

// IO implements Device. It cuts the transfer at chunks and at MaxRequest; the pieces run at the same time on
// their spindles. When ctx ends, what is queued still runs.
func (d *Disk) IO(ctx context.Context, write bool, owner, addr uint64, n int) error {
	if n <= 0 {
		return nil
	}
	t := &transfer{waiter: d.s.NewWaiter("the transfer of " + d.cfg.Name)}
	d.mu.Lock()
	touched := d.cut(t, write, owner, addr, n)
	for _, p := range touched {
		p.start()
	}
	d.mu.Unlock()
	return t.waiter.Wait(ctx)
}

// cut queues the pieces of a transfer. mu is held.
func (d *Disk) cut(t *transfer, write bool, owner, addr uint64, n int) (touched []*spindle) {
	now := d.s.Now()
	var last *request
	var on *spindle
	for n > 0 {
		chunk := addr / uint64(d.cfg.Chunk)
		m := min(n, int(uint64(d.cfg.Chunk)-addr%uint64(d.cfg.Chunk)), d.cfg.MaxRequest)
		p, local := d.find(chunk)
		local += addr % uint64(d.cfg.Chunk)
		if last != nil && on == p && last.addr+uint64(last.n) == local && last.n+m <= d.cfg.MaxRequest {
			last.n += m
		} else {
			last, on = &request{write: write, owner: owner, addr: local, n: m, at: now, io: t}, p
			t.left++
			p.add(last)
			touched = append(touched, p)
		}
		addr += uint64(m)
		n -= m
	}
	return touched
}

// find is the spindle of a chunk and where it lies there. mu is held.
func (d *Disk) find(chunk uint64) (*spindle, uint64) {
	n := uint64(len(d.spin))
	if !d.cfg.Random {
		return d.spin[chunk%n], chunk / n * uint64(d.cfg.Chunk)
	}
	i, ok := d.place[chunk]
	if !ok {
		i = d.rand.IntN(len(d.spin))
		d.place[chunk] = i
	}
	return d.spin[i], chunk / n * uint64(d.cfg.Chunk)
}

// serve is the time that a request takes from a head at a place. mu is held.
func (d *Disk) serve(r *request, head uint64) sched.Duration {
	c := &d.cfg
	t := sched.FromStd(c.PerRequest) + sched.Duration(r.n)*sched.Duration(c.PerByte)
	if r.addr != head {
		d.st.Seeks++
		dist := float64(max(r.addr, head)-min(r.addr, head)) / float64(c.Capacity)
		t += sched.FromStd(c.SeekTrack + time.Duration(float64(c.SeekFull-c.SeekTrack)*math.Sqrt(min(dist, 1))))
		if c.RPM > 0 {
			t += sched.Duration(d.rand.Float64() * float64(60*sched.Second) / float64(c.RPM))
		}
	}
	if c.Exponential {
		t = sched.Duration(d.rand.ExpFloat64() * float64(t))
	}
	return t
}

// spindle is one disk. Disk.mu guards it.
type spindle struct {
	d       *Disk
	queue   elevator
	waiting int
	busy    *request // nil: none
	head    uint64
	idleAt  sched.Time // CFQ: since when it waits although others are queued; 0 not
	done    *sched.Timer
	idle    *sched.Timer
	meter   *sched.Meter
}

func (p *spindle) add(r *request) {
	p.queue.add(r)
	p.waiting++
	p.d.st.MaxQueue = max(p.d.st.MaxQueue, p.waiting)
}

// start begins the next request, if the spindle is free and its elevator gives one.
func (p *spindle) start() {
	d := p.d
	if p.busy != nil || p.waiting == 0 {
		return
	}
	now := d.s.Now()
	r, again := p.queue.next(now, p.head)
	if r == nil {
		if p.idleAt == 0 {
			p.idleAt = now
		}
		p.idle.Reset(again.Sub(now))
		return
	}
	if p.idleAt != 0 {
		d.st.Idled += now.Sub(p.idleAt)
		p.idleAt = 0
		p.idle.Stop()
	}
	p.waiting--
	p.busy = r
	t := d.serve(r, p.head)
	p.head = r.addr + uint64(r.n)
	if r.write {
		d.st.Writes++
	} else {
		d.st.Reads++
	}
	d.st.Bytes += uint64(r.n)
	d.st.Busy += t
	d.st.Waited += now.Sub(r.at)
	p.meter.Take(1)
	if w := now.Sub(r.at); w > 0 {
		p.meter.Waited(w)
	}
	p.done.Reset(t)
}

// resume is the end of idling.
func (p *spindle) resume() {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.start()
}

// complete ends a request and begins the next.
func (p *spindle) complete() {
	d := p.d
	d.mu.Lock()
	defer d.mu.Unlock()
	r := p.busy
	if r == nil {
		return
	}
	p.busy = nil
	p.meter.Give(1)
	p.queue.completed(r, d.s.Now())
	if r.io.left--; r.io.left == 0 {
		r.io.waiter.Wake()
	}
	p.start()
}
