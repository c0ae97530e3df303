package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goOutput is what a test binary prints with -test.v=test2json.
const goOutput = "\x16=== RUN   TestA\n" +
	"\x16=== RUN   TestA/one\n" +
	"\x16=== RUN   TestA/two\n" +
	"    a_test.go:10: some talk\n" +
	"    a_test.go:12: no memory windows on this device\n" +
	"\x16=== RUN   TestA/three\n" +
	"    a_test.go:20: \n" +
	"        \tError:      \tNot equal\n" +
	"\x16--- FAIL: TestA (0.03s)\n" +
	"    \x16--- PASS: TestA/one (0.00s)\n" +
	"    \x16--- SKIP: TestA/two (0.01s)\n" +
	"    \x16--- FAIL: TestA/three (0.02s)\n" +
	"\x16=== RUN   TestB\n" +
	"\x16--- PASS: TestB (0.00s)\n" +
	"\x16=== RUN   TestC\n" +
	"\x16--- SKIP: TestC (0.00s)\n"

func TestReadResult(t *testing.T) {
	var r result
	require.NoError(t, r.read(t.Context(), []byte(goOutput+"\x16FAIL\n"), 1))
	assert.Equal(t, 2, r.passed)
	assert.Equal(t, map[string][]string{"no memory windows on this device": {"TestA/two"}, "no reason given": {"TestC"}}, r.skipped)
	require.Len(t, r.failed, 1)
	assert.Equal(t, "TestA/three", r.failed[0].test)
	assert.Contains(t, r.failed[0].output, "Not equal")
	assert.Empty(t, r.trouble)
	assert.False(t, r.ok())
}

// A binary that dies leaves tests without an end: those have failed.
func TestReadResultOfACrash(t *testing.T) {
	var r result
	require.NoError(t, r.read(t.Context(), []byte("\x16=== RUN   TestA\n\x16=== RUN   TestA/x\nfatal error: boom\n"), 2))
	require.NotEmpty(t, r.failed)
	assert.Equal(t, "TestA/x", r.failed[len(r.failed)-1].test)
	assert.Contains(t, r.failed[len(r.failed)-1].output, "boom")
}

func TestReadResultAsAWhole(t *testing.T) {
	var r result
	require.NoError(t, r.read(t.Context(), []byte("\x16PASS\n"), 0))
	assert.Equal(t, []string{"no test ran"}, r.trouble)

	r = result{}
	require.NoError(t, r.read(t.Context(), []byte("\x16=== RUN   TestB\n\x16--- PASS: TestB (0.00s)\n\x16PASS\ngoleak: found goroutines\n"), 1))
	require.Len(t, r.trouble, 1)
	assert.Contains(t, r.trouble[0], "exit status 1")
	assert.Contains(t, r.trouble[0], "goleak: found")

	r = result{}
	assert.ErrorContains(t, r.readEvents(strings.NewReader("{")), "test2json")
}

func TestSummary(t *testing.T) {
	good := &result{device: "rxe", suite: "verbs", passed: 5, elapsed: time.Second,
		skipped: map[string][]string{"no FMR": {"T/a", "T/b", "T/c", "T/d"}, "no windows": {"T/w"}}}
	var b strings.Builder
	assert.True(t, printSummary(&b, []*result{good}, 3*time.Second))
	assert.Equal(t, `
DEVICE  SUITE  PASSED  SKIPPED  FAILED  TIME  
rxe     verbs  5       5        0       1.0s  
skipped  rxe  verbs  4: no FMR (T/a T/b T/c ...)
skipped  rxe  verbs  1: no windows (T/w)
ok  1 suites in 3s
`, b.String())

	for name, bad := range map[string]*result{
		"failed":  {device: "siw", suite: "verbs", failed: []failure{{test: "T/x"}}},
		"trouble": {device: "siw", suite: "verbs", trouble: []string{"the guest ended early\nPanic"}},
	} {
		b.Reset()
		assert.False(t, printSummary(&b, []*result{good, bad}, time.Second), name)
		assert.Contains(t, b.String(), "\nFAIL  2 suites", name)
	}
}

func TestPrintResult(t *testing.T) {
	var b strings.Builder
	printResult(&b, &result{device: "rxe", suite: "verbs", passed: 1, failed: []failure{{"T/x", "line one\nline two\n"}}, logs: "~/logs"})
	assert.Equal(t, "FAIL  rxe  verbs  1 passed, 0 skipped, 1 failed  0.0s\n    T/x\n    | line one\n    | line two\n    logs in ~/logs\n", b.String())
}

func TestReasonWithoutName(t *testing.T) {
	assert.Equal(t, "needs a global key", withoutName("dma/map needs a global key", "TestVerbs/dma/map"))
	assert.Equal(t, "no windows", withoutName("map: no windows", "TestVerbs/dma/map"))
	assert.Equal(t, "ap needs", withoutName("ap needs", "TestVerbs/dma/map"))
	assert.Equal(t, "map", withoutName("map", "TestVerbs/dma/map"))
}
