package link

import (
	"fmt"
	"math"
	"time"
)

// Config describes both directions of a link. The zero value is a wire without
// limits: packets arrive in the moment that they are sent.
type Config struct {
	Name          string        // for reports
	BitsPerSecond int64         // 0: packets take no time to send
	Delay         time.Duration // one way, after the last bit was sent; 0: none
	MTU           int           // bytes, largest payload of one packet; 0: what the device uses
	Overhead      int           // bytes added to each payload on the wire: headers, framing; 0: none

	// Queue is how many packets may wait while the port sends another; those that find it
	// full are dropped. 0: no limit.
	Queue int

	// Probabilities for each packet, 0 to 1. Copies are delayed independently.
	Loss      float64 // it is sent and never arrives
	Duplicate float64 // it arrives twice
	Reorder   float64 // it arrives ReorderDelay later, so that others pass it

	ReorderDelay time.Duration // 0: four full packets' time, at least 10 us
}

// Bounds of Config, generous against typing errors and small enough that no sum overflows.
const (
	maxBitsPerSecond = 8e12 // a byte a picosecond
	maxDelay         = time.Hour
	maxMTU           = 1 << 20
	maxOverhead      = 1 << 16
	maxQueue         = 1 << 24
)

// defaultMTU stands in for the device's where a rate or time of full packets
// is asked for: the largest of InfiniBand and RoCE.
const defaultMTU = 4096

// Validate names the first field that is out of bounds, its value and the bounds.
func (c Config) Validate() error {
	ints := [...]struct {
		field   string
		v, most int64
	}{
		{"BitsPerSecond", c.BitsPerSecond, maxBitsPerSecond},
		{"MTU", int64(c.MTU), maxMTU},
		{"Overhead", int64(c.Overhead), maxOverhead},
		{"Queue", int64(c.Queue), maxQueue},
	}
	for _, x := range ints {
		if x.v < 0 || x.v > x.most {
			return fmt.Errorf("link %q: %s is %d, want 0 to %d", c.Name, x.field, x.v, x.most)
		}
	}
	times := [...]struct {
		field string
		v     time.Duration
	}{{"Delay", c.Delay}, {"ReorderDelay", c.ReorderDelay}}
	for _, x := range times {
		if x.v < 0 || x.v > maxDelay {
			return fmt.Errorf("link %q: %s is %v, want 0 to %v", c.Name, x.field, x.v, maxDelay)
		}
	}
	probs := [...]struct {
		field string
		v     float64
	}{{"Loss", c.Loss}, {"Duplicate", c.Duplicate}, {"Reorder", c.Reorder}}
	for _, x := range probs {
		if !(x.v >= 0 && x.v <= 1) { // so that NaN fails
			return fmt.Errorf("link %q: %s is %v, want 0 to 1", c.Name, x.field, x.v)
		}
	}
	return nil
}

// PayloadRate is the payload in bytes a second that full packets carry: +Inf
// without a rate. If MTU is the device's, packets of 4096 bytes are meant.
func (c Config) PayloadRate() float64 {
	if c.BitsPerSecond == 0 {
		return math.Inf(1)
	}
	m := float64(c.mtu())
	return float64(c.BitsPerSecond) / 8 * m / (m + float64(c.Overhead))
}

func (c Config) mtu() int {
	if c.MTU == 0 {
		return defaultMTU
	}
	return c.MTU
}

// WithDelay is c with another delay.
func (c Config) WithDelay(oneWay time.Duration) Config {
	c.Delay = oneWay
	return c
}

// WithLoss is c with another probability of loss.
func (c Config) WithLoss(p float64) Config {
	c.Loss = p
	return c
}
