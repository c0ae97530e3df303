package sched

import (
	"math"
	"time"
)

// Time is picoseconds since the scheduler was made; it lasts 106 days.
type Time int64

// Duration is a length of time in picoseconds: one byte at 100 Gb/s takes 80.
type Duration int64

// Units of Duration.
const (
	Picosecond  Duration = 1
	Nanosecond           = 1000 * Picosecond
	Microsecond          = 1000 * Nanosecond
	Millisecond          = 1000 * Microsecond
	Second               = 1000 * Millisecond
)

// FromStd converts d, saturating at about 106 days.
func FromStd(d time.Duration) Duration {
	if d > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	if d < math.MinInt64/1000 {
		return math.MinInt64
	}
	return Duration(d) * Nanosecond
}

// Std converts d to nanoseconds, rounding towards zero.
func (d Duration) Std() time.Duration { return time.Duration(d / Nanosecond) }

// Seconds is d in seconds.
func (d Duration) Seconds() float64 { return float64(d) / float64(Second) }

func (d Duration) String() string { return d.Std().String() }

// Add is t+d, saturating.
func (t Time) Add(d Duration) Time {
	if d > 0 && Time(d) > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + Time(d)
}

// Sub is the time from u to t.
func (t Time) Sub(u Time) Duration { return Duration(t - u) }

func (t Time) String() string { return Duration(t).String() }
