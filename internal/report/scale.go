package report

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// tick is a labelled place on an axis.
type tick struct {
	at    float64 // 0 to 1
	label string
}

// scale maps values to 0..1 along an axis.
type scale struct {
	lo, hi float64
	log    bool
	ticks  []tick
}

func (s *scale) at(v float64) float64 {
	if s.log {
		return (math.Log(v) - math.Log(s.lo)) / (math.Log(s.hi) - math.Log(s.lo))
	}
	return (v - s.lo) / (s.hi - s.lo)
}

// knobScale is the axis of a knob: logarithmic for numbers that span much, linear for other numbers, and evenly
// spaced for names and where a 0 keeps the axis from being logarithmic. where gives the place of each of its values.
func knobScale(values []Param) (s scale, where []float64) {
	nums := make([]float64, len(values))
	numeric := len(values) > 1
	lo, hi, least := math.Inf(1), math.Inf(-1), math.Inf(1)
	for i, v := range values {
		n, ok := v.Number()
		numeric = numeric && ok
		nums[i] = n
		lo, hi = min(lo, n), max(hi, n)
		if n > 0 {
			least = min(least, n)
		}
	}
	if !numeric || lo == hi || lo <= 0 && hi/least > 20 {
		s = scale{lo: -0.5, hi: float64(len(values)) - 0.5}
		for i := range values {
			nums[i] = float64(i)
		}
	} else if lo > 0 && hi/lo >= 8 {
		pad := math.Pow(hi/lo, 0.06)
		s = scale{lo: lo / pad, hi: hi * pad, log: true}
	} else {
		pad := 0.06 * (hi - lo)
		s = scale{lo: lo - pad, hi: hi + pad}
	}
	for i, v := range values {
		where = append(where, s.at(nums[i]))
		s.ticks = append(s.ticks, tick{where[i], v.Label()})
	}
	s.ticks = apart(s.ticks)
	return s, where
}

// apart leaves out ticks whose labels would touch.
func apart(ticks []tick) []tick {
	const width = 0.034 // of a letter
	var out []tick
	for _, t := range ticks {
		if n := len(out); n > 0 {
			room := width * float64(len(t.label)+len(out[n-1].label)+2) / 2
			if math.Abs(t.at-out[n-1].at) < room {
				continue
			}
		}
		out = append(out, t)
	}
	return out
}

// rateScale is an axis from 0.
func rateScale(hi float64, calls bool) scale {
	if !calls {
		hi /= 1e6
	}
	step := niceStep(hi)
	s := scale{hi: step * max(math.Ceil(hi/step*1.02), 1)}
	for v := 0.0; v <= s.hi*1.0001; v += step {
		s.ticks = append(s.ticks, tick{s.at(v), compact(v)})
	}
	if !calls {
		s.hi *= 1e6
	}
	return s
}

// niceStep divides 0..hi into 3 to 6 round steps.
func niceStep(hi float64) float64 {
	if !(hi > 0) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(hi)))
	for _, f := range []float64{0.2, 0.25, 0.5, 1, 2, 2.5} {
		if hi/(f*p) <= 5.5 {
			return f * p
		}
	}
	return 5 * p
}

func compact(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// timeScale is an axis of ns: from 0, or logarithmic if the times span much.
func timeScale(lo, hi float64) scale {
	if lo > 0 && hi/lo > 12 {
		s := scale{lo: math.Pow(10, math.Floor(math.Log10(lo))), hi: math.Pow(10, math.Ceil(math.Log10(hi*1.001))), log: true}
		for v := s.lo; v <= s.hi*1.0001; v *= 10 {
			s.ticks = append(s.ticks, tick{s.at(v), fmt.Sprint(time.Duration(v))})
		}
		return s
	}
	unit := math.Pow(1000, max(0, math.Floor(math.Log10(max(hi, 1))/3)))
	step := niceStep(hi / unit)
	s := scale{hi: step * max(math.Ceil(hi/unit/step*1.02), 1)}
	for v := 0.0; v <= s.hi*1.0001; v += step {
		s.ticks = append(s.ticks, tick{s.at(v), fmt.Sprint(time.Duration(v * unit))})
	}
	s.hi *= unit
	return s
}
