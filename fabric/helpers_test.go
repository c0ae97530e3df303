package fabric_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
)

var bg = context.Background()

var modes = nfsclient.RegModes()[1:] // all but Auto

// modesOf are those that a device has.
func modesOf(per fabric.Personality) []nfsclient.RegMode {
	if per.Name == "" || per.Attr.Caps&verbs.CapFMR != 0 {
		return modes
	}
	return slices.DeleteFunc(slices.Clone(modes), func(m nfsclient.RegMode) bool { return m == nfsclient.FMR })
}

// eachTime runs f as subtests virtual and live.
func eachTime(t *testing.T, f func(t *testing.T, p fabric.Params)) {
	t.Helper()
	for _, live := range []bool{false, true} {
		t.Run(map[bool]string{false: "virtual", true: "live"}[live], func(t *testing.T) {
			f(t, fabric.Params{Live: live})
		})
	}
}

// eachMode runs f as subtests in each registration mode, virtual and live.
func eachMode(t *testing.T, f func(t *testing.T, p fabric.Params)) {
	t.Helper()
	eachTime(t, func(t *testing.T, p fabric.Params) {
		for _, mode := range modes {
			t.Run(mode.String(), func(t *testing.T) {
				p.RegMode = mode
				f(t, p)
			})
		}
	})
}

// long says whether the long form of tests is asked for by an environment variable.
func long(name string) bool { return os.Getenv(name) != "" }

// share is n, or a part of it under the race detector, for what runs in virtual time: there is one goroutine
// at a time, and no race to be found.
func share(n int) int {
	if raceEnabled {
		return max(n/8, 1)
	}
	return n
}

// lossy is a link that loses, repeats and reorders 1 % of the packets each.
func lossy() *fabric.Link {
	l := fabric.RoCE100G
	l.Name, l.Loss, l.Duplicate, l.Reorder = "lossy", 0.01, 0.01, 0.01
	return &l
}

// data is n bytes that repeat nowhere near.
func data(n int, seed byte) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// waitAll waits for tasks of Fabric.Go.
func waitAll(t *testing.T, waits []func(context.Context) error) {
	t.Helper()
	for _, w := range waits {
		require.NoError(t, w(bg))
	}
}

// fakeTB is a test to be looked at: it records what is reported to it.
type fakeTB struct {
	name     string
	mu       sync.Mutex
	lines    []string // "log ...", "error ..."
	failed   bool
	stopped  bool // FailNow was called
	cleanups []func()
}

// runFake runs fn as the testing package would: in a goroutine of its own, which FailNow ends,
// and with the cleanups behind it.
func runFake(name string, fn func(t fabric.TB)) *fakeTB {
	f := &fakeTB{name: name}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.cleanUp()
		fn(f)
	}()
	<-done
	return f
}

func (f *fakeTB) cleanUp() {
	for len(f.cleanups) > 0 {
		last := len(f.cleanups) - 1
		c := f.cleanups[last]
		f.cleanups = f.cleanups[:last]
		c()
	}
}

func (f *fakeTB) add(kind, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, kind+" "+fmt.Sprintf(format, args...))
	f.failed = f.failed || kind == "error"
}

func (f *fakeTB) Helper()                           {}
func (f *fakeTB) Name() string                      { return f.name }
func (f *fakeTB) Logf(format string, args ...any)   { f.add("log", format, args...) }
func (f *fakeTB) Errorf(format string, args ...any) { f.add("error", format, args...) }
func (f *fakeTB) Cleanup(c func())                  { f.cleanups = append(f.cleanups, c) }

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.add("error", format, args...)
	f.FailNow()
}

func (f *fakeTB) FailNow() {
	f.mu.Lock()
	f.failed, f.stopped = true, true
	f.mu.Unlock()
	runtime.Goexit()
}

func (f *fakeTB) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// errors are the lines of Errorf and Fatalf.
func (f *fakeTB) errors() []string {
	var out []string
	for _, l := range f.lines {
		if s, ok := strings.CutPrefix(l, "error "); ok {
			out = append(out, s)
		}
	}
	return out
}
