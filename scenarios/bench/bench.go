package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"example.org/nfsrdma/fabric"
)

// Options say what to measure.
type Options struct {
	Params   fabric.Params // Live is taken as set
	Time     time.Duration // of each figure; 0 is 1 s
	Only     string        // names that contain this; the bounds are always measured
	Progress io.Writer
}

// Figure is one measurement. Its name tells the unit: _per_s, or _MBps for 10^6
// bytes a second. What begins with tcp_ goes over loopback sockets.
type Figure struct {
	Name  string
	Value float64
	Bound string // name of the bound that it is compared with
}

// Result holds the figures in order.
type Result struct{ Figures []Figure }

// Get is the value of a name.
func (r *Result) Get(name string) (float64, bool) {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

// Map is the result by name.
func (r *Result) Map() map[string]float64 {
	m := make(map[string]float64, len(r.Figures))
	for _, f := range r.Figures {
		m[f.Name] = f.Value
	}
	return m
}

// FileSize is the size of the file, and of the memory that the bounds copy.
const FileSize = 64 << 20

type spec struct {
	name  string
	bound string
	load  fabric.Load
	twin  string // over TCP: the figure of the same load over RDMA; "": over RDMA itself
}

func specs() []spec {
	var out []spec
	add := func(name, bound string, l fabric.Load) {
		l.FileSize = FileSize
		out = append(out, spec{name: name, bound: bound, load: l})
	}
	const k4, k64, m1 = 4 << 10, 64 << 10, 1 << 20
	add("read4k_per_s", "engine_per_s", fabric.Load{Op: fabric.Read, Size: k4, Depth: 64, Random: true})
	add("read1m_MBps", "memcpy1m_MBps", fabric.Load{Op: fabric.Read, Size: m1, Depth: 16})
	add("write1m_MBps", "memcpy1m_MBps", fabric.Load{Op: fabric.Write, Size: m1, Depth: 16})
	for _, s := range out[:3] {
		out = append(out, spec{"tcp_" + s.name, s.name, s.load, s.name})
	}
	for _, d := range []int{1, 8, 1024} {
		add(fmt.Sprintf("read4k_depth%d_per_s", d), "engine_per_s", fabric.Load{Op: fabric.Read, Size: k4, Depth: d, Random: true})
	}
	for _, d := range []int{1, 8, 64, 1024} {
		add(fmt.Sprintf("write4k_depth%d_per_s", d), "engine_per_s", fabric.Load{Op: fabric.Write, Size: k4, Depth: d, Random: true})
	}
	add("read64k_MBps", "memcpy1m_MBps", fabric.Load{Op: fabric.Read, Size: k64, Depth: 16})
	add("write64k_MBps", "memcpy1m_MBps", fabric.Load{Op: fabric.Write, Size: k64, Depth: 16})
	for _, d := range []int{1, 8, 1024} {
		add(fmt.Sprintf("read1m_depth%d_MBps", d), "memcpy1m_MBps", fabric.Load{Op: fabric.Read, Size: m1, Depth: d})
		add(fmt.Sprintf("write1m_depth%d_MBps", d), "memcpy1m_MBps", fabric.Load{Op: fabric.Write, Size: m1, Depth: d})
		add(fmt.Sprintf("read64k_depth%d_MBps", d), "memcpy1m_MBps", fabric.Load{Op: fabric.Read, Size: k64, Depth: d})
		add(fmt.Sprintf("write64k_depth%d_MBps", d), "memcpy1m_MBps", fabric.Load{Op: fabric.Write, Size: k64, Depth: d})
	}
	add("getattr_per_s", "", fabric.Load{Op: fabric.GetAttr, Depth: 64})
	return out
}

// Run measures all figures.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Time == 0 {
		o.Time = time.Second
	}
	if o.Time < 0 {
		return nil, fmt.Errorf("bench: time %v, must be positive", o.Time)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Params.Live = true
	r := &Result{}
	r.add(Figure{Name: "memcpy1m_MBps", Value: memcpyRate(1<<20, o.Time) / 1e6})
	r.add(Figure{Name: "memcpy4k_per_s", Value: memcpyRate(4<<10, o.Time) / 4096})
	r.add(Figure{Name: "engine_per_s", Value: engineRate(o.Time)})
	d, err := deviceRate(o.Time)
	if err != nil {
		return nil, err
	}
	r.add(Figure{"device_write4k_per_s", d, "engine_per_s"})
	want := map[string]bool{}
	for _, s := range specs() {
		if strings.Contains(s.name, o.Only) {
			want[s.name] = true
			want[s.twin] = true // a ratio needs both, of one run
		}
	}
	for _, s := range specs() {
		if !want[s.name] {
			continue
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "bench: %s\n", s.name)
		}
		if err := r.measure(ctx, o, s); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", s.name, err)
		}
	}
	return r, nil
}

// check fails if no figure has a name that Only fits.
func (o *Options) check() error {
	var names []string
	for _, s := range specs() {
		if strings.Contains(s.name, o.Only) {
			return nil
		}
		names = append(names, s.name)
	}
	return fmt.Errorf("bench: no figure contains %q; there are %s", o.Only, strings.Join(names, " "))
}

func (r *Result) add(f Figure) { r.Figures = append(r.Figures, f) }

// ratioPrefix begins the names of ratios: softroce over loopback TCP, the same load in the same run.
const ratioPrefix = "rdma_over_tcp_"

// Ratio says that the figure is one.
func (f Figure) Ratio() bool { return strings.HasPrefix(f.Name, ratioPrefix) }

// short is a name without its unit.
func short(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, "_per_s"), "_MBps")
}

// measure runs one load in a fabric of its own, warmed up first.
func (r *Result) measure(ctx context.Context, o Options, s spec) error {
	runtime.GC()
	if s.twin != "" {
		o.Params.Proto = fabric.TCP
	}
	f, err := fabric.Start(o.Params)
	if err != nil {
		return err
	}
	defer f.Close()
	warm := s.load
	warm.Time = o.Time / 4
	if _, err := f.RunLoad(ctx, warm); err != nil {
		return err
	}
	s.load.Time = o.Time
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := f.RunLoad(ctx, s.load)
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	v := got.OpsPerSecond()
	if strings.HasSuffix(s.name, "_MBps") {
		v = got.Throughput() / fabric.MBps
	}
	r.add(Figure{s.name, v, s.bound})
	if rdma, ok := r.Get(s.twin); ok && v > 0 {
		r.add(Figure{Name: ratioPrefix + short(s.twin), Value: rdma / v})
	}
	switch s.name {
	case "read4k_per_s", "read1m_MBps", "write1m_MBps":
		// The load itself allocates a buffer a task and a histogram, not each call.
		r.add(Figure{Name: "allocs_per_" + short(s.name), Value: float64(after.Mallocs-before.Mallocs) / float64(max(got.Calls, 1))})
	}
	return f.Close()
}
