package link

import (
	"math"
	"math/bits"

	"example.org/nfsrdma/internal/sched"
)

// port is the sender's end of a pipe: it sends one packet at a time.
type port struct {
	num, den uint64     // picoseconds a byte, in lowest terms
	free     sched.Time // when it has sent all that it was given
	rem      uint64     // of free, in units of 1/den ps: no drift at odd rates
	busy     sched.Duration
	queue    int // most packets that wait; 0 no limit

	// When each packet that waits will be started, if there is a limit.
	starts  []sched.Time // ring, a power of two
	head, n int
}

func newPort(c *Config) port {
	o := port{den: 1, queue: c.Queue}
	if c.BitsPerSecond > 0 {
		o.num, o.den = 8e12, uint64(c.BitsPerSecond)
		g := gcd(o.num, o.den)
		o.num, o.den = o.num/g, o.den/g
	}
	return o
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// send takes a packet of n bytes on the wire at now. It says when the last bit is sent;
// false if the queue is full.
func (o *port) send(now sched.Time, n int) (end sched.Time, ok bool) {
	start := o.free
	if start <= now {
		start, o.rem = now, 0
	} else if o.queue > 0 && !o.wait(now, start) {
		return 0, false
	}
	o.free = start.Add(o.take(n))
	o.busy += o.free.Sub(start)
	return o.free, true
}

// take is how long n bytes take, with the rest of earlier ones.
func (o *port) take(n int) sched.Duration {
	hi, lo := bits.Mul64(uint64(n), o.num)
	if o.den != 1 {
		var carry uint64
		lo, carry = bits.Add64(lo, o.rem, 0)
		if hi += carry; hi >= o.den {
			return math.MaxInt64
		}
		lo, o.rem = bits.Div64(hi, lo, o.den)
		hi = 0
	}
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return sched.Duration(lo)
}

// wait queues a packet that will be started at start; false if there is no room.
func (o *port) wait(now, start sched.Time) bool {
	for o.n > 0 && o.starts[o.head] <= now {
		o.head = (o.head + 1) & (len(o.starts) - 1)
		o.n--
	}
	if o.n == o.queue {
		return false
	}
	if o.n == len(o.starts) {
		r := make([]sched.Time, max(16, 2*len(o.starts)))
		for i := range o.n {
			r[i] = o.starts[(o.head+i)&(len(o.starts)-1)]
		}
		o.starts, o.head = r, 0
	}
	o.starts[(o.head+o.n)&(len(o.starts)-1)] = start
	o.n++
	return true
}

// busyUntil is how long the port has been sending up to now: all that it was
// given less what it has still to send, without a gap from now to free.
func (o *port) busyUntil(now sched.Time) sched.Duration {
	return o.busy - max(o.free.Sub(now), 0)
}
