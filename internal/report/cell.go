package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Cell is the result of one run of a sweep. Times are in ns, rates a second of the fabric's time.
type Cell struct {
	Sweep  string `json:"sweep"` // hash of the sweep's definition
	Index  int    `json:"cell"`  // place in the matrix, from 0; the last knob turns fastest
	Of     int    `json:"of"`    // cells of the whole matrix
	Seed   uint64 `json:"seed"`
	Params Params `json:"params"`

	Error string `json:"error,omitempty"` // the cell failed; what follows is then zero

	Size       int      `json:"size"` // bytes a call
	Calls      int64    `json:"calls"`
	Bytes      int64    `json:"bytes"` // payload
	Elapsed    int64    `json:"elapsed_ns"`
	Throughput float64  `json:"bytes_per_s"`
	Ops        float64  `json:"calls_per_s"`
	Latency    Latency  `json:"latency"`
	Bound      Bound    `json:"bound"`
	Why        string   `json:"why"`
	Counters   Counters `json:"counters,omitempty"`
}

// Latency is that of the calls, in ns.
type Latency struct {
	Mean int64 `json:"mean_ns"`
	P50  int64 `json:"p50_ns"`
	P90  int64 `json:"p90_ns"`
	P99  int64 `json:"p99_ns"`
	Max  int64 `json:"max_ns"`
}

// Bound is the resource that limited the run.
type Bound struct {
	Resource string  `json:"resource"`
	Knob     string  `json:"knob"`   // what widens it
	Busy     float64 `json:"busy"`   // 0 to 1
	Waited   float64 `json:"waited"` // share of the calls' time, 0 to 1
}

// Param is a knob and its value in canonical form: a decimal number, a duration such as "2µs", or a name.
type Param struct{ Knob, Value string }

// Number is the value on an axis: a count, a share, or ns; false if it is a name.
func (p Param) Number() (float64, bool) {
	if f, err := strconv.ParseFloat(p.Value, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return f, true
	}
	if d, err := time.ParseDuration(p.Value); err == nil {
		return float64(d), true
	}
	return 0, false
}

// Label is the value as people read it: 65536 is 64K.
func (p Param) Label() string {
	n, err := strconv.ParseInt(p.Value, 10, 64)
	if err != nil {
		return p.Value
	}
	for _, u := range []struct {
		shift  uint
		suffix string
	}{{30, "G"}, {20, "M"}, {10, "K"}} {
		if m := int64(1) << u.shift; n >= m && n%m == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.suffix
		}
	}
	return p.Value
}

// Params are the values of all knobs, in the order of the sweep. In JSON they are an object.
type Params []Param

// Get is the value of a knob; false if the sweep has it not.
func (p Params) Get(knob string) (Param, bool) {
	for _, x := range p {
		if x.Knob == knob {
			return x, true
		}
	}
	return Param{}, false
}

func (p Params) String() string {
	var b []byte
	for i, x := range p {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(append(append(b, x.Knob...), '='), x.Label()...)
	}
	return string(b)
}

// MarshalJSON writes numbers and truth values as such, all else as strings.
func (p Params) MarshalJSON() ([]byte, error) {
	return appendObject(nil, len(p), func(i int) (string, []byte, error) {
		v := p[i].Value
		if plain(v) {
			return p[i].Knob, []byte(v), nil
		}
		q, err := quote(v)
		return p[i].Knob, q, err
	})
}

// plain says whether v is a number or truth value of JSON that reads back as the same text.
func plain(v string) bool {
	if v == "true" || v == "false" {
		return true
	}
	var n json.Number
	return v != "" && v[0] != '"' && v != "null" && json.Unmarshal([]byte(v), &n) == nil
}

// UnmarshalJSON keeps the order of the object.
func (p *Params) UnmarshalJSON(b []byte) error {
	*p = nil
	return readObject(b, func(key string, raw json.RawMessage) error {
		v := string(raw)
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &v); err != nil {
				return err
			}
		} else if !plain(v) {
			return fmt.Errorf("value %.40s of knob %q is neither number nor name", v, key)
		}
		*p = append(*p, Param{key, v})
		return nil
	})
}

// Counter is a named count.
type Counter struct {
	Name  string
	Value uint64
}

// Counters are those that the sweep asked for, in its order. In JSON they are an object.
type Counters []Counter

// MarshalJSON keeps the order.
func (c Counters) MarshalJSON() ([]byte, error) {
	return appendObject(nil, len(c), func(i int) (string, []byte, error) {
		return c[i].Name, strconv.AppendUint(nil, c[i].Value, 10), nil
	})
}

// UnmarshalJSON keeps the order of the object.
func (c *Counters) UnmarshalJSON(b []byte) error {
	*c = nil
	return readObject(b, func(key string, raw json.RawMessage) error {
		n, err := strconv.ParseUint(string(raw), 10, 64)
		*c = append(*c, Counter{key, n})
		return err
	})
}

func quote(s string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func appendObject(b []byte, n int, at func(i int) (key string, value []byte, err error)) ([]byte, error) {
	b = append(b, '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		key, value, err := at(i)
		if err != nil {
			return nil, err
		}
		k, err := quote(key)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, k...), ':'), value...)
	}
	return append(b, '}'), nil
}

func readObject(b []byte, each func(key string, raw json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%.40q is not an object", b)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if err := each(key, raw); err != nil {
			return err
		}
	}
	return nil
}
