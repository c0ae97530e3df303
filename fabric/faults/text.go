package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String is the text form, which Parse takes.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Kind.String())
	add := func(key, v string) {
		b.WriteString(" " + key + "=" + v)
	}
	if f.Packet != "" {
		add("kind", f.Packet)
	}
	if f.Op != "" {
		add("op", f.Op)
	}
	if f.Dir != AnyDir {
		add("dir", name(dirNames[:], int(f.Dir)))
	}
	if f.Side != AnySide {
		add("side", name(sideNames[:], int(f.Side)))
	}
	for _, x := range []struct {
		key string
		v   int
	}{{"nth", f.Nth}, {"every", f.Every}, {"max", f.Max}} {
		if x.v != 0 {
			add(x.key, strconv.Itoa(x.v))
		}
	}
	if f.P != 0 {
		add("p", strconv.FormatFloat(f.P, 'g', -1, 64))
	}
	from := "from"
	if f.point() == onTime {
		from = "at"
	}
	for _, x := range []struct {
		key string
		v   time.Duration
	}{{from, f.From}, {"to", f.To}, {"by", f.By}} {
		if x.v != 0 {
			add(x.key, x.v.String())
		}
	}
	if f.Optional {
		b.WriteString(" optional")
	}
	return b.String()
}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return strconv.Itoa(i)
}

// Format is the text form of a list.
func Format(list []Fault) string {
	var out []string
	for _, f := range list {
		out = append(out, f.String())
	}
	return strings.Join(out, "; ")
}

// maxFaults bounds a list.
const maxFaults = 1024

// Parse takes faults from their text form, separated by semicolons or line ends: a kind and then key=value, in any
// order. Keys are kind, op, dir (c->s, s->c), side (client, server), nth, every, p, from, to, at, max, by, and the word
// optional.
func Parse(s string) ([]Fault, error) {
	var list []Fault
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		if len(list) == maxFaults {
			return nil, fmt.Errorf("faults: more than %d", maxFaults)
		}
		f, err := parseOne(words)
		if err == nil {
			err = f.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("faults: %w", err)
		}
		list = append(list, f)
	}
	return list, nil
}

func parseOne(words []string) (Fault, error) {
	var f Fault
	k := slices.Index(kindNames[:], words[0])
	if k < 0 {
		return f, fmt.Errorf("no fault %q, want one of %s", words[0], strings.Join(kindNames[:], " "))
	}
	f.Kind = Kind(k)
	seen := map[string]bool{}
	for _, w := range words[1:] {
		key, v, _ := strings.Cut(w, "=")
		if seen[key] {
			return f, fmt.Errorf("%q twice in %q", key, strings.Join(words, " "))
		}
		seen[key] = true
		if err := f.set(key, v, w); err != nil {
			return f, fmt.Errorf("%q of %q: %w", w, strings.Join(words, " "), err)
		}
	}
	if seen["at"] && (seen["from"] || f.point() != onTime) {
		return f, fmt.Errorf("%q: at= is for actions that nothing else triggers", strings.Join(words, " "))
	}
	return f, nil
}

func (f *Fault) set(key, v, word string) (err error) {
	pick := func(names []string) int {
		i := slices.Index(names, v)
		if i < 0 {
			err = fmt.Errorf("want one of %s", strings.Join(names, " "))
		}
		return max(i, 0)
	}
	switch key {
	case "kind":
		f.Packet = PacketNames()[pick(PacketNames())]
	case "op":
		f.Op = v
	case "dir":
		f.Dir = Dir(pick(dirNames[:]))
	case "side":
		f.Side = Side(pick(sideNames[:]))
	case "nth":
		f.Nth, err = strconv.Atoi(v)
	case "every":
		f.Every, err = strconv.Atoi(v)
	case "max":
		f.Max, err = strconv.Atoi(v)
	case "p":
		f.P, err = strconv.ParseFloat(v, 64)
	case "from", "at":
		f.From, err = time.ParseDuration(v)
	case "to":
		f.To, err = time.ParseDuration(v)
	case "by":
		f.By, err = time.ParseDuration(v)
	case "optional":
		if f.Optional = true; word != "optional" {
			err = fmt.Errorf("takes no value")
		}
	default:
		err = fmt.Errorf("no such key")
	}
	return err
}

// MarshalText gives the text form.
func (f Fault) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText takes the text form of one fault.
func (f *Fault) UnmarshalText(b []byte) error {
	list, err := Parse(string(b))
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("faults: %q is %d faults, want one", b, len(list))
	}
	if err == nil {
		*f = list[0]
	}
	return err
}
