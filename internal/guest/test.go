package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

type testOptions struct {
	out     io.Writer
	suites  []string // names; none is all
	run     string   // in the place of each suite's own
	verbose bool     // what the tests print, as they run
}

// errFailed is the end of a run in which something failed: it has been printed.
const errFailed = exitStatus(1)

// binaries are compiled test binaries in a directory of their own.
type binaries struct {
	dir    string
	module string
	goroot string
	failed map[string]error // by suite.build
}

// compile builds the suites' test binaries. One that does not build fails its suites only. The caller removes dir.
func compile(ctx context.Context, todo []suite) (*binaries, error) {
	module, goroot, err := goDirs(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "nfsrdma-tests-")
	if err != nil {
		return nil, err
	}
	b := &binaries{dir: dir, module: module, goroot: goroot, failed: map[string]error{}}
	done := map[string]bool{}
	for _, s := range todo {
		if done[s.build()] {
			continue
		}
		done[s.build()] = true
		progress("compiling %s", s.pkg)
		out := filepath.Join(dir, s.build())
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-tags", s.tagList(), "-o", out, "./"+s.pkg)
		cmd.Dir = module
		err := quiet(cmd)
		if _, missing := os.Stat(out); err == nil && missing != nil {
			err = fmt.Errorf("%s has no tests", s.pkg)
		}
		for _, p := range s.programs {
			if err == nil {
				build := exec.CommandContext(ctx, "go", "build", "-tags", s.tagList(), "-o", filepath.Join(dir, path.Base(p)), "./"+p)
				build.Dir = module
				err = quiet(build)
			}
		}
		if err != nil {
			b.failed[s.build()] = err
		}
		if ctx.Err() != nil {
			_ = os.RemoveAll(dir)
			return nil, ctx.Err()
		}
	}
	return b, nil
}

// testGuests runs the suites on each device, in one boot if none breaks it.
func testGuests(ctx context.Context, devs []string, o testOptions) error {
	start := time.Now()
	todo, err := selectSuites(o.suites)
	if err != nil {
		return err
	}
	if len(devs) == 0 {
		devs = devices
	}
	for _, dev := range devs {
		if _, err := checkDevice(dev); err != nil {
			return err
		}
	}
	g, err := setup(ctx)
	if err != nil {
		return err
	}
	b, err := compile(ctx, todo)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	var results []*result
	for _, dev := range devs {
		r, err := testDevice(ctx, g, b, dev, todo, o)
		results = append(results, r...)
		if err != nil {
			return err
		}
	}
	return conclude(o.out, results, start)
}

func conclude(out io.Writer, results []*result, start time.Time) error {
	if len(results) == 0 {
		return errors.New("nothing to run")
	}
	if !printSummary(out, results, time.Since(start)) {
		return errFailed
	}
	return nil
}

// testDevice runs the suites of one device. After a suite that ends the guest, the rest get a new one.
func testDevice(ctx context.Context, g *guest, b *binaries, dev string, todo []suite, o testOptions) ([]*result, error) {
	var results []*result
	var pending []suite
	for _, s := range todo {
		if !s.runsOn(dev) {
			continue
		}
		if err := b.failed[s.build()]; err != nil {
			r := &result{device: dev, suite: s.name, trouble: []string{"does not build\n" + err.Error()}}
			printResult(o.out, r)
			results = append(results, r)
			continue
		}
		pending = append(pending, s)
	}
	var ran []*result
	for n := 0; n < len(pending); n = len(ran) {
		done, err := bootSuites(ctx, g, b, dev, pending[n:], o)
		ran = append(ran, done...)
		if err != nil {
			return append(results, ran...), err
		}
	}
	// The kernel's devices have races of their own, and an emulated machine finds them: what failed gets one more
	// guest, and the summary says so.
	for i, r := range ran { // in the order of pending
		if r.ok() {
			continue
		}
		progress("%s %s once more, in a new guest", dev, r.suite)
		again, err := bootSuites(ctx, g, b, dev, pending[i:i+1], o)
		if err != nil {
			return append(results, ran...), err
		}
		again[0].first = r
		ran[i] = again[0]
	}
	return append(results, ran...), nil
}

// bootSuites boots once and gives the results of the suites that ran, at least one: the first of todo.
func bootSuites(ctx context.Context, g *guest, b *binaries, dev string, todo []suite, o testOptions) ([]*result, error) {
	m, err := newMachine(g, dev)
	if err != nil {
		return nil, err
	}
	defer m.remove()
	m.mounts = []string{b.module}
	m.shared["/opt/tests"] = b.dir
	for _, s := range todo {
		m.mem = max(m.mem, s.mem)
		if s.goroot && m.goroot == "" {
			m.goroot = b.goroot
			m.mounts = append(m.mounts, b.goroot)
		}
		m.steps = append(m.steps, step{
			name: s.name, dir: filepath.Join(b.module, s.pkg), env: append([]string{"NFSRDMA_PROGRAMS=/opt/tests"}, s.env...),
			argv: append([]string{"/opt/tests/" + s.build()}, s.args(o.run)...), timeout: s.limit(),
		})
	}
	h := &suiteHandler{ctx: ctx, m: m, o: o}
	err = m.boot(ctx, h)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		h.broke(todo[0].name, err)
	}
	return h.results, h.err
}

// suiteHandler makes results of what a guest says.
type suiteHandler struct {
	ctx context.Context
	m   *machine
	o   testOptions

	results []*result
	cur     *result
	out     bytes.Buffer
	started time.Time
	err     error // of our own making
}

func (h *suiteHandler) begin(name string) {
	h.cur = &result{device: h.m.dev, suite: name}
	h.out.Reset()
	h.started = time.Now()
}

func (h *suiteHandler) output(b []byte) {
	h.out.Write(b)
	if h.o.verbose {
		_, _ = h.o.out.Write(bytes.ReplaceAll(b, []byte{0x16}, nil))
	}
}

func (h *suiteHandler) end(_ string, status int) {
	if h.cur == nil {
		return
	}
	h.cur.elapsed = time.Since(h.started)
	if trouble := kernelTrouble(filepath.Join(h.m.dir, "dmesg-"+h.cur.suite)); trouble != "" {
		h.cur.trouble = append(h.cur.trouble, "the kernel complained\n"+trouble)
	}
	h.finish(status)
}

// broke is the end of a guest that did not finish: the suite that ran fails, or first if none has begun.
func (h *suiteHandler) broke(first string, err error) {
	if h.cur == nil && len(h.results) > 0 {
		return // between two suites: the next boot shows whether it comes again
	}
	if h.cur == nil {
		h.begin(first)
	}
	h.cur.elapsed = time.Since(h.started)
	text := err.Error()
	if t := h.m.lastWords(40); t != "" {
		text += "\n" + t
	}
	h.cur.trouble = append(h.cur.trouble, text)
	h.finish(0)
}

func (h *suiteHandler) finish(status int) {
	r := h.cur
	h.cur = nil
	if err := r.read(h.ctx, h.out.Bytes(), status); err != nil && h.err == nil {
		h.err = err
	}
	if !r.ok() {
		_ = os.WriteFile(filepath.Join(h.m.dir, "output-"+r.suite), h.out.Bytes(), 0o644)
		r.logs = h.m.keepLogs()
	}
	printResult(h.o.out, r)
	h.results = append(h.results, r)
}

// read fills the result with what a test binary printed and its exit status.
func (r *result) read(ctx context.Context, output []byte, status int) error {
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json")
	cmd.Stdin = bytes.NewReader(output)
	events, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go tool test2json: %w", err)
	}
	if err := r.readEvents(bytes.NewReader(events)); err != nil {
		return err
	}
	switch {
	case !r.ok():
	case status != 0:
		r.trouble = append(r.trouble, fmt.Sprintf("exit status %d\n%s", status, tail(strings.ReplaceAll(string(output), "\x16", ""), 30)))
	case r.passed+r.skips() == 0:
		r.trouble = append(r.trouble, "no test ran")
	}
	return nil
}

// testDirect runs the suites on a device of this machine.
func testDirect(ctx context.Context, dev string, o testOptions) error {
	start := time.Now()
	if dev == "" {
		return errors.New("name this machine's device: -dev NAME, or NFSRDMA_DEVICE=NAME make test-device (rdma link lists them)")
	}
	if _, err := os.Stat(filepath.Join("/sys/class/infiniband", dev)); err != nil {
		return fmt.Errorf("this machine has no RDMA device %s (rdma link lists them)", dev)
	}
	all, err := selectSuites(o.suites)
	if err != nil {
		return err
	}
	var todo []suite
	for _, s := range all {
		if !s.guest {
			todo = append(todo, s)
		}
	}
	b, err := compile(ctx, todo)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	var results []*result
	for _, s := range todo {
		r := &result{device: dev, suite: s.name}
		if err := b.failed[s.build()]; err != nil {
			r.trouble = []string{"does not build\n" + err.Error()}
		} else if err := r.runHere(ctx, b, s, o); err != nil {
			return err
		}
		printResult(o.out, r)
		results = append(results, r)
	}
	return conclude(o.out, results, start)
}

func (r *result) runHere(ctx context.Context, b *binaries, s suite, o testOptions) error {
	start := time.Now()
	limit, cancel := context.WithTimeout(ctx, s.limit()+stepGrace)
	defer cancel()
	cmd := exec.CommandContext(limit, filepath.Join(b.dir, s.build()), s.args(o.run)...)
	cmd.Dir = filepath.Join(b.module, s.pkg)
	cmd.Env = append(append(os.Environ(), "NFSRDMA_DEVICE="+r.device, "NFSRDMA_PROGRAMS="+b.dir), s.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if o.verbose {
		w := io.MultiWriter(&out, o.out)
		cmd.Stdout, cmd.Stderr = w, w
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.trouble = append(r.trouble, err.Error())
	}
	r.elapsed = time.Since(start)
	return r.read(ctx, out.Bytes(), cmd.ProcessState.ExitCode())
}
