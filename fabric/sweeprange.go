package fabric

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a sweep, against typing errors.
const (
	maxKnobValues = 4096
	maxCells      = 1 << 20
)

// values are the canonical values of a specification such as "1,2,4..16" or "4K..1M:x2".
func (k *sweepKnob) values(spec string) ([]string, error) {
	var out []string
	for _, part := range strings.Split(spec, ",") {
		part = strings.TrimSpace(part)
		var vs []string
		var err error
		if from, rest, isRange := strings.Cut(part, ".."); isRange {
			vs, err = k.span(from, rest)
		} else {
			var v string
			v, err = k.value(part)
			vs = []string{v}
		}
		if err != nil {
			return nil, err
		}
		for _, v := range vs {
			if slices.Contains(out, v) {
				return nil, fmt.Errorf("fabric: sweep: %s has the value %s twice in %q", k, v, spec)
			}
			out = append(out, v)
		}
		if len(out) > maxKnobValues {
			return nil, tooMany(k, spec)
		}
	}
	return out, nil
}

func tooMany(k *sweepKnob, spec string) error {
	return &LimitError{k.String(), strconv.Quote(spec), fmt.Sprintf("at most %d values: give a range a step, such as :x2 or :+8", maxKnobValues)}
}

// span is the range from..rest, both ends included; rest may end in a step: (x2), (+4), :x2 or :+4.
func (k *sweepKnob) span(from, rest string) ([]string, error) {
	spec := from + ".." + rest
	to, step, hasStep := strings.Cut(strings.TrimSuffix(rest, ")"), "(")
	if !hasStep {
		to, step, hasStep = strings.Cut(rest, ":")
	}
	bad := func(want string) error { return &LimitError{k.String(), strconv.Quote(spec), want} }
	if !hasStep {
		step = "+1"
	}
	if len(step) < 2 || step[0] != 'x' && step[0] != '*' && step[0] != '+' {
		return nil, bad("a range such as 1..16, 4K..1M:x2 or 0..64:+8")
	}
	factor := step[0] != '+'
	lo, err := k.value(from)
	if err != nil {
		return nil, err
	}
	hi, err := k.value(to)
	if err != nil {
		return nil, err
	}
	a, unit, ok1 := number(lo)
	b, _, ok2 := number(hi)
	if !ok1 || !ok2 {
		return nil, bad("a list: names have no ranges")
	}
	if unit == "ns" && !factor && !hasStep {
		return nil, bad("a range of durations with a step, such as 0s..100us:+10us")
	}
	var by float64
	if factor {
		by, err = strconv.ParseFloat(step[1:], 64)
	} else if by, _, ok1 = number(step[1:]); !ok1 {
		var v string
		if v, err = k.parse(step[1:]); err == nil { // 4K
			by, _, _ = number(v)
		}
	}
	switch {
	case err != nil:
		return nil, bad("a range whose step is a number, such as :x2 or :+8")
	case b < a:
		return nil, bad("a range from the lesser to the greater value")
	case factor && (by <= 1 || a <= 0), !factor && by <= 0:
		return nil, bad("a range that grows: a factor above 1 from a value above 0, or a step above 0")
	}
	_, err = k.parse("1.5")
	whole := unit == "int" && err != nil
	var out []string
	x := a
	for i := 0; x <= b*(1+1e-12); i++ {
		if i == maxKnobValues {
			return nil, tooMany(k, spec)
		}
		y := x
		if whole {
			y = math.Round(x)
		}
		v, err := k.parse(format(y, unit))
		if err != nil {
			return nil, bad(err.Error())
		}
		if n := len(out); n == 0 || out[n-1] != v {
			out = append(out, v)
		}
		if factor {
			x *= by
		} else {
			x = a + float64(i+1)*by
		}
	}
	return out, nil
}

// number is the value of a canonical number or duration, and its unit.
func number(s string) (v float64, unit string, ok bool) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if _, err := strconv.ParseInt(s, 10, 64); err == nil {
			return f, "int", true
		}
		return f, "", true
	}
	if d, err := time.ParseDuration(s); err == nil {
		return float64(d), "ns", true
	}
	return 0, "", false
}

func format(x float64, unit string) string {
	switch unit {
	case "int":
		if x == float64(int64(x)) {
			return strconv.FormatInt(int64(x), 10)
		}
	case "ns":
		return time.Duration(x).String()
	}
	return strconv.FormatFloat(x, 'g', 12, 64)
}
