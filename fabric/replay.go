package fabric

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// maxLines is how many messages are kept for a test that fails.
const maxLines = 40

func (f *Fabric) trace(who, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lines) == maxLines {
		f.lines = slices.Delete(f.lines, 0, 1)
	}
	f.lines = append(f.lines, fmt.Sprintf("%v %s %s", f.s.Now(), who, line))
}

func (f *Fabric) traceServer() func(string) {
	if !f.params.Trace {
		return nil
	}
	return func(line string) { f.trace("server", line) }
}

// logReplay logs how the test can be run again, and the last messages.
func (f *Fabric) logReplay(t TB) {
	t.Helper()
	t.Logf("%s", f.replay(t.Name()))
	for _, l := range f.lines {
		t.Logf("%s", l)
	}
}

func (f *Fabric) replay(test string) string {
	mode := "virtual time"
	if f.params.Live {
		mode = "live"
	}
	return fmt.Sprintf("fabric: seed %d, %s; run it again: NFSRDMA_SEED=%d NFSRDMA_TRACE=1 go test -count=1 -run '%s' %s",
		f.params.Seed, mode, f.params.Seed, runPattern(test), testPackage())
}

// reportStuck says on standard error that a task has not come back: the test's own goroutine, which drives it, cannot.
func (f *Fabric) reportStuck(e *StuckError) {
	fmt.Fprintln(os.Stderr, e)
	if f.test != "" {
		fmt.Fprintf(os.Stderr, "in test %s; %s\n", f.test, f.replay(f.test))
	}
}

// testPackage is the import path of the package whose test runs.
func testPackage() string {
	if b, ok := debug.ReadBuildInfo(); ok && strings.HasSuffix(b.Path, ".test") {
		return strings.TrimSuffix(b.Path, ".test")
	}
	return "."
}

// runPattern is what go test -run takes for this test alone, without quotes.
func runPattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		p = strings.ReplaceAll(regexp.QuoteMeta(p), "'", ".")
		parts[i] = "^" + p + "$"
	}
	return strings.Join(parts, "/")
}
