package fabric

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/nfsrdma/verbs/softroce"
)

// setting is what a cell runs with, while knobs are being turned.
type setting struct {
	p           Params
	l           Load
	link        Link
	linked      bool          // link is in use
	lock        time.Duration // InodeLock
	lockPerByte int           // ps
	ioSize      int
	seed        uint64 // of the knob Seed; 0 none
}

// fabricParams are the Params that the knobs have made.
func (s *setting) fabricParams() Params {
	p := s.p
	if s.linked {
		p.Link = &s.link
	}
	if s.lock != 0 || s.lockPerByte != 0 {
		p.Storage = p.Storage.WithInodeLock(s.lock, s.lockPerByte)
	}
	return p
}

// sweepKnob is a knob that a sweep can turn.
type sweepKnob struct {
	name    string
	kernel  []string // other names, the kernel's first
	kind    string   // what values it takes
	parse   func(s string) (canonical string, err error)
	set     func(s *setting, canonical string)
	zeroSet bool // 0 is a value; otherwise it would mean the default
}

// kernelNames are other names of fields, the kernel's or mount's first.
var kernelNames = map[string][]string{
	"MaxDataSegs":        {"RPCRDMA_MAX_DATA_SEGS", "segs", "segments"},
	"RegMode":            {"rdma_memreg_strategy", "mode"},
	"InlineRead":         {"rdma_max_inline_read"},
	"InlineWrite":        {"rdma_max_inline_write"},
	"Credits":            {"rdma_slot_table_entries", "slots"},
	"ServerCredits":      {"max_requests"},
	"IRD":                {"responder_resources"},
	"ORD":                {"max_outbound_read_requests", "initiator_depth"},
	"SQDepth":            {"sc_sq_depth"},
	"ClientSQDepth":      {"max_send_wr"},
	"ServerInline":       {"max_req_size"},
	"MaxBlockSize":       {"max_block_size"},
	"Threads":            {"nfsd"},
	"Proto":              {"proto"},
	"SndBuf":             {"SO_SNDBUF"},
	"WMem":               {"tcp_wmem"},
	"TCPWindow":          {"tcp_rmem"},
	"DelayedAck":         {"TCP_DELACK_MIN"},
	"RootSquash":         {"root_squash"},
	"ReadOnly":           {"ro"},
	"Link.Delay":         {"delay"},
	"Link.BitsPerSecond": {"rate"},
	"Link.Loss":          {"loss"},
	"Link.MTU":           {"mtu"},
	"IOSize":             {"bs"},
	"InodeLock":          {"lock"},
	"Personality":        {"device"},
	"HighPri":            {"WQ_HIGHPRI"},
}

// zeroIsValue are the integer fields of which 0 does not mean a default.
var zeroIsValue = []string{"UID", "GID", "ReadPercent", "Warm", "Bytes", "Calls",
	"Link.BitsPerSecond", "Link.MTU", "Link.Overhead", "Link.Queue"}

// notKnobs cannot be turned: a sweep decides on them, or they make no difference.
var notKnobs = []string{"Params.Seed", "Params.Live", "Params.Device", "Params.Trace", "Params.Link", "Load.Dir", "Load.Name", "Link.Name"}

// sweepKnobs are all knobs: the fields of Params, Load and Link that are numbers, switches or names, and a few of
// the sweep's own.
func sweepKnobs() []sweepKnob {
	out := []sweepKnob{
		{name: "Seed", kind: "integer", parse: parseInt(reflect.TypeFor[uint64]()), zeroSet: false,
			set: func(s *setting, v string) { s.seed, _ = strconv.ParseUint(v, 10, 64) }},
		{name: "Link", kind: "name: " + strings.Join(append([]string{"direct"}, LinkNames()...), ", "), parse: parseLink,
			set: func(s *setting, v string) { s.link, s.linked = NamedLink(v) }},
		{name: "IOSize", kind: "bytes an application gives at once; a call carries as much of them as rsize or wsize allow",
			parse: parseInt(reflect.TypeFor[int]()), set: func(s *setting, v string) { s.ioSize, _ = strconv.Atoi(v) }},
		{name: "InodeLock", kind: "duration that each WRITE holds the file's lock", parse: parseDuration, zeroSet: true,
			set: func(s *setting, v string) { s.lock, _ = time.ParseDuration(v) }},
		{name: "InodeLockPerByte", kind: "ps a byte that each WRITE holds the file's lock", parse: parseInt(reflect.TypeFor[int]()),
			zeroSet: true, set: func(s *setting, v string) { s.lockPerByte, _ = strconv.Atoi(v) }},
	}
	for _, part := range []struct {
		name, prefix string
		t            reflect.Type
		of           func(*setting) reflect.Value
	}{
		{"Params", "", reflect.TypeFor[Params](), func(s *setting) reflect.Value { return reflect.ValueOf(&s.p).Elem() }},
		{"Load", "", reflect.TypeFor[Load](), func(s *setting) reflect.Value { return reflect.ValueOf(&s.l).Elem() }},
		{"Link", "Link.", reflect.TypeFor[Link](), func(s *setting) reflect.Value {
			s.linked = true
			return reflect.ValueOf(&s.link).Elem()
		}},
	} {
		for i := range part.t.NumField() {
			f := part.t.Field(i)
			if slices.Contains(notKnobs, part.name+"."+f.Name) {
				continue
			}
			k := sweepKnob{name: part.prefix + f.Name}
			put := k.of(f.Type)
			if put == nil {
				continue
			}
			k.zeroSet = k.zeroSet || slices.Contains(zeroIsValue, k.name)
			k.set = func(s *setting, v string) { put(part.of(s).Field(i), v) }
			out = append(out, k)
		}
	}
	for i := range out {
		out[i].kernel = kernelNames[out[i].name]
	}
	return out
}

// of makes k fit a field of type t; it returns how a canonical value gets into one, nil if such a field is no knob.
func (k *sweepKnob) of(t reflect.Type) (put func(v reflect.Value, s string)) {
	names := valueNames(t)
	switch {
	case t == reflect.TypeFor[Personality]():
		for _, p := range softroce.Personalities() {
			names = append(names, p.Name)
		}
		k.kind, k.parse = "name: "+strings.Join(names, ", "), parseName(names)
		return func(v reflect.Value, s string) {
			v.Set(reflect.ValueOf(softroce.Personalities()[slices.Index(names, s)]))
		}
	case t == reflect.TypeFor[Storage]():
		names = []string{"memory", "sink"}
		k.kind, k.parse = "name: "+strings.Join(names, ", "), parseName(names)
		return func(v reflect.Value, s string) {
			v.Set(reflect.ValueOf([]Storage{Memory(), Sink()}[slices.Index(names, s)]))
		}
	case names != nil:
		k.kind, k.parse, k.zeroSet = "name: "+strings.Join(names, ", "), parseName(names), true
		return func(v reflect.Value, s string) { v.SetUint(uint64(slices.Index(names, s))) }
	case t == reflect.TypeFor[time.Duration]():
		k.kind, k.parse = "duration", parseDuration
		return func(v reflect.Value, s string) {
			d, _ := time.ParseDuration(s)
			v.SetInt(int64(d))
		}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		read := func(s string) (v reflect.Value, err error) {
			p := reflect.New(t)
			err = p.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
			return p.Elem(), err
		}
		k.kind, k.zeroSet = "name", true
		k.parse = func(s string) (string, error) {
			_, err := read(s)
			return s, err
		}
		return func(v reflect.Value, s string) {
			x, _ := read(s)
			v.Set(x)
		}
	}
	switch t.Kind() {
	case reflect.String:
		k.kind, k.zeroSet = "text", true
		k.parse = func(s string) (string, error) {
			if s == "" {
				return "", errors.New("a text that is not empty")
			}
			return s, nil
		}
		return func(v reflect.Value, s string) { v.SetString(s) }
	case reflect.Bool:
		k.kind, k.parse = "true or false", parseName([]string{"false", "true"})
		return func(v reflect.Value, s string) { v.SetBool(s == "true") }
	case reflect.Float64:
		k.kind, k.parse, k.zeroSet = "number", parseFloat, true
		return func(v reflect.Value, s string) {
			f, _ := strconv.ParseFloat(s, 64)
			v.SetFloat(f)
		}
	case reflect.Int, reflect.Int64:
		k.kind, k.parse = "integer", parseInt(t)
		return func(v reflect.Value, s string) {
			n, _ := strconv.ParseInt(s, 10, 64)
			v.SetInt(n)
		}
	case reflect.Uint32, reflect.Uint64:
		k.kind, k.parse = "integer", parseInt(t)
		return func(v reflect.Value, s string) {
			n, _ := strconv.ParseUint(s, 10, 64)
			v.SetUint(n)
		}
	}
	return nil
}

// valueNames are those of an enumeration, by its String method: all up to the first that has none.
func valueNames(t reflect.Type) []string {
	if t.Kind() != reflect.Uint8 || !t.Implements(reflect.TypeFor[fmt.Stringer]()) {
		return nil
	}
	var names []string
	for i := range uint64(math.MaxUint8) {
		v := reflect.New(t).Elem()
		v.SetUint(i)
		s := v.Interface().(fmt.Stringer).String()
		if s == "" || strings.ContainsAny(s, "( ") {
			break
		}
		names = append(names, s)
	}
	return names
}

func parseName(names []string) func(string) (string, error) {
	return func(s string) (string, error) {
		for _, n := range names {
			if strings.EqualFold(n, s) {
				return n, nil
			}
		}
		return "", fmt.Errorf("one of %s%s", strings.Join(names, ", "), near(s, names))
	}
}

func parseLink(s string) (string, error) {
	return parseName(append([]string{"direct"}, LinkNames()...))(s)
}

func parseDuration(s string) (string, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return "", fmt.Errorf("a duration with its unit that is not negative, such as 2us or 1.5ms")
	}
	return d.String(), nil
}

func parseFloat(s string) (string, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return "", fmt.Errorf("a number")
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}

// parseInt takes decimal integers with an optional suffix K, M, G or T of powers of 1024.
func parseInt(t reflect.Type) func(string) (string, error) {
	lo, hi := int64(0), int64(math.MaxUint32)
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		lo, hi = math.MinInt64, math.MaxInt64
	case reflect.Uint64:
		hi = math.MaxInt64
	}
	return func(s string) (string, error) {
		digits, shift := s, uint(0)
		if n := len(s); n > 1 {
			if i := strings.IndexByte("KMGT", s[n-1]&^0x20); i >= 0 {
				digits, shift = s[:n-1], uint(10*(i+1))
			}
		}
		b, ok := new(big.Int).SetString(digits, 10)
		if !ok || len(digits) > 20 {
			return "", fmt.Errorf("an integer, with K, M, G or T for powers of 1024")
		}
		b.Lsh(b, shift)
		if b.Cmp(big.NewInt(lo)) < 0 || b.Cmp(big.NewInt(hi)) > 0 {
			return "", fmt.Errorf("%d to %d", lo, hi)
		}
		return b.String(), nil
	}
}

// defaultValue stands in a list for the knob's default.
const defaultValue = "default"

// value brings one value into its canonical form.
func (k *sweepKnob) value(s string) (string, error) {
	if strings.EqualFold(s, defaultValue) {
		return defaultValue, nil
	}
	v, err := k.parse(s)
	if err != nil {
		return "", &LimitError{k.String(), strconv.Quote(s), err.Error()}
	}
	if !k.zeroSet && v == "0" {
		return "", &LimitError{k.String(), 0, "at least 1, or the word default"}
	}
	return v, nil
}

func (k *sweepKnob) String() string {
	if len(k.kernel) == 0 {
		return k.name
	}
	return k.name + " (" + k.kernel[0] + ")"
}

// turn puts a canonical value into s.
func (k *sweepKnob) turn(s *setting, v string) {
	if v != defaultValue {
		k.set(s, v)
	}
}

// sameName compares names without regard to case, "_", "-" and spaces.
func sameName(a, b string) bool { return foldName(a) == foldName(b) }

func foldName(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}

// findKnob finds a knob by the name of its field, the kernel's, or another that kernelNames has. The prefix Params or
// Load is allowed.
func findKnob(all []sweepKnob, name string) (*sweepKnob, error) {
	n := name
	for _, prefix := range []string{"params.", "load."} {
		if len(n) > len(prefix) && strings.EqualFold(n[:len(prefix)], prefix) {
			n = n[len(prefix):]
		}
	}
	var names []string
	for i := range all {
		k := &all[i]
		for _, x := range append([]string{k.name}, k.kernel...) {
			if sameName(x, n) {
				return k, nil
			}
			names = append(names, x)
		}
	}
	return nil, fmt.Errorf("fabric: sweep: no knob %q%s", name, near(n, names))
}

// near suggests those of names that are close to s.
func near(s string, names []string) string {
	type hit struct {
		name string
		d    int
	}
	if s = foldName(s); len(s) > 64 {
		return ""
	}
	limit := max(1, len(s)/3)
	var hits []hit
	for _, n := range names {
		f := foldName(n)
		d := distance(s, f)
		if len(s) >= 3 && (strings.Contains(f, s) || strings.Contains(s, f) && len(f) >= 3) {
			d = min(d, 1)
		}
		if d <= limit {
			hits = append(hits, hit{n, d})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return a.d - b.d })
	if len(hits) == 0 {
		return ""
	}
	var out []string
	for _, h := range hits[:min(3, len(hits))] {
		out = append(out, h.name)
	}
	return "; did you mean " + strings.Join(out, ", ") + "?"
}

// distance counts letters inserted, dropped, replaced, and neighbours exchanged.
func distance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			n := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				n++
			}
			n = min(n, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				n = min(n, d[i-2][j-2]+1)
			}
			d[i][j] = n
		}
	}
	return d[len(a)][len(b)]
}

// Field is the name of the field that the knob turns; it fails if there is none.
func (k Knob) Field() (string, error) {
	x, err := findKnob(sweepKnobs(), k.Name)
	if err != nil {
		return "", err
	}
	return x.name, nil
}

// KnobInfo describes a knob that sweeps can turn.
type KnobInfo struct {
	Name   string   // of the field in Params or Load, or Link.Field
	Kernel []string // other names, the kernel's first
	Kind   string   // what values it takes
}

// KnobInfos lists the knobs of sweeps by name.
func KnobInfos() []KnobInfo {
	var out []KnobInfo
	for _, k := range sweepKnobs() {
		out = append(out, KnobInfo{k.name, k.kernel, k.kind})
	}
	slices.SortFunc(out, func(a, b KnobInfo) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return out
}
