package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
)

// matrixArgs is a sweep of 16 cells; each round of fields may follow.
const matrixArgs = "sweep -k calls=16 -k warm=4 -k depth=4 -k filesize=1M -k link=IBSDR -k segs=4,16 -knob ord=1,4 -k mode=fastreg,all-physical -k bs=8K..64K:x8 -seed 5 "

func sweepCLI(t *testing.T, more string) string {
	t.Helper()
	status, out, errOut := runCLI(t, strings.Fields(matrixArgs+more)...)
	require.Zero(t, status, errOut)
	return out
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(b)
}

// Twice, by other numbers of workers, and in four pieces: the same bytes in each format.
func TestSweepShardedMerged(t *testing.T) {
	dir := t.TempDir()
	formats := []string{"text", "csv", "json", "jsonl", "bench", "html"}
	whole := filepath.Join(dir, "whole.jsonl")
	assert.Empty(t, sweepCLI(t, "-q -o "+whole))
	for i := range 4 {
		sweepCLI(t, fmt.Sprintf("-q -shard %d/4 -workers %d -o %s/piece-{shard}.json%s", 4-i, i+1, dir, []string{"l", ""}[i%2]))
	}
	pieces, err := filepath.Glob(dir + "/piece-*-of-4.*")
	require.NoError(t, err)
	require.Len(t, pieces, 4, "and no partial file is left")
	for _, f := range formats {
		want := sweepCLI(t, "-q -format "+f)
		if f == "jsonl" {
			assert.Equal(t, want, readFile(t, whole))
		}
		for _, files := range [][]string{{whole}, pieces} {
			status, out, errOut := runCLI(t, append([]string{"merge", "-format", f}, files...)...)
			require.Zero(t, status, errOut)
			assert.Equal(t, want, out, "%s of %d files", f, len(files))
		}
	}
	status, _, errOut := runCLI(t, append([]string{"merge"}, pieces[1:]...)...)
	assert.Equal(t, 1, status)
	assert.Contains(t, errOut, "4 of 16 cells are missing: ")
}

// A thousand cells of segments x ORD x IRD x mode x size. It takes some time, so only make sweep-1000 runs it.
func TestSweep1000(t *testing.T) {
	if os.Getenv("NFSRDMA_SWEEP_1000") == "" {
		t.Skip("make sweep-1000 runs it")
	}
	const args = "sweep -q -k link=IBSDR -k segs=8..128:x2 -k ord=1..16:x2 -k ird=1..16:x2 -k mode=fastreg,all-physical -k bs=4K..256K:x4 "
	sweep := func(more string) {
		began := time.Now()
		status, _, errOut := runCLI(t, strings.Fields(args+more)...)
		require.Zero(t, status, errOut)
		t.Logf("%v on %d cores: nfsrdma %s%s", time.Since(began).Round(100*time.Millisecond), runtime.GOMAXPROCS(0), args, more)
	}
	dir := t.TempDir()
	names := []string{"jsonl", "json", "csv", "txt", "bench", "html"}
	out := func(base string) (flags string) {
		for _, n := range names {
			flags += fmt.Sprintf(" -o %s/%s.%s", dir, base, n)
		}
		return flags
	}
	sweep(out("a"))
	require.Equal(t, 1000, strings.Count(readFile(t, dir+"/a.jsonl"), "\n"))
	sweep(out("b"))
	merge := "merge"
	for i := 1; i <= 4; i++ {
		sweep(fmt.Sprintf("-shard %d/4 -o %s/piece-{shard}.jsonl", i, dir))
		merge += fmt.Sprintf(" %s/piece-%d-of-4.jsonl", dir, i)
	}
	status, _, errOut := runCLI(t, strings.Fields(merge+out("c"))...)
	require.Zero(t, status, errOut)
	for _, n := range names {
		a := readFile(t, dir+"/a."+n)
		require.True(t, a == readFile(t, dir+"/b."+n), "second run, %s", n)
		require.True(t, a == readFile(t, dir+"/c."+n), "sharded and merged, %s", n)
	}
}

func TestSweepByEnvironment(t *testing.T) {
	t.Setenv("TEST_TOTAL_SHARDS", "4")
	t.Setenv("TEST_SHARD_INDEX", "2")
	assert.Equal(t, 4, strings.Count(sweepCLI(t, "-format jsonl -q"), "\n"))
	assert.Equal(t, 16, strings.Count(sweepCLI(t, "-format jsonl -shard none -q"), "\n"))
	t.Setenv("TEST_TOTAL_SHARDS", "")
	t.Setenv("JOB_COMPLETION_INDEX", "0")
	assert.Equal(t, 8, strings.Count(sweepCLI(t, "-format jsonl -shards 2 -q"), "\n"))
}

// Several files at once; text on standard output too if it is asked for.
func TestSweepFiles(t *testing.T) {
	dir := t.TempDir()
	out := sweepCLI(t, fmt.Sprintf("-q -format text -counter read_chunk_count -o %[1]s/a.csv -o %[1]s/a.bench -o %[1]s/a.json -o %[1]s/a.txt", dir))
	assert.Equal(t, out, readFile(t, dir+"/a.txt"))
	assert.Contains(t, out, "sweep ")
	assert.Contains(t, out, "16 cells: Op=write Calls=16 Warm=4 Depth=4 FileSize=1M Link=IBSDR")
	assert.Regexp(t, `(?m)^MaxDataSegs +ORD +RegMode +IOSize +MB/s +CALLS/S +P50 +P99 +read_chunk_count +BOUND BY$`, out)
	assert.Regexp(t, `(?m)^4 +1 +fastreg +8K +\d+\.\d +\d+ +\S+ +\S+ +20 +the ORD window of svcrdma, \d+ % busy$`, out)
	assert.Regexp(t, `ORD +x1\.\d\d +1:\d+\.\dMB/s 4:\d+\.\dMB/s`, out)
	assert.Equal(t, 17, strings.Count(readFile(t, dir+"/a.csv"), "\n"))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 4)
}

func TestSweepInterruptedGoesOn(t *testing.T) {
	dir := t.TempDir()
	args := strings.Fields(matrixArgs + "-o " + dir + "/a.csv")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	require.Equal(t, 130, run(env{ctx, &out, &errOut}, args))
	assert.Contains(t, errOut.String(), "a.csv.partial; the same command goes on from there")

	// The partial file has what was done: here all but the last 5 of a finished sweep.
	lines := strings.SplitAfter(sweepCLI(t, "-q -format jsonl"), "\n")
	require.NoError(t, os.WriteFile(dir+"/a.csv.partial", []byte(strings.Join(lines[:11], "")), 0o644))
	status, _, progress := runCLI(t, args...)
	require.Zero(t, status, progress)
	assert.Equal(t, sweepCLI(t, "-q -format csv"), readFile(t, dir+"/a.csv"))
	assert.NoFileExists(t, dir+"/a.csv.partial")
	assert.Contains(t, progress, "sweep: 16 of 16 cells\n")
}

func TestSweepErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.jsonl")
	require.NoError(t, os.WriteFile(bad, []byte("{}\n"), 0o644))
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"sweep", 1, "no knob to turn"},
		{"sweep -k ord", 1, `"ord" is not name=values`},
		{"sweep -k odr=1", 1, `no knob "odr"; did you mean ORD?`},
		{"sweep -k segs=0", 1, "MaxDataSegs (RPCRDMA_MAX_DATA_SEGS) is 0, must be at least 1"},
		{"sweep -k mode=magic", 1, "RegMode (rdma_memreg_strategy) is \"magic\", must be one of"},
		{"sweep -k segs=5000 -k calls=1 -q", 1, "1 of 1 cells failed, the first"},
		{"sweep -k segs=5000 -k calls=1 -q", 1, "MaxDataSegs (RPCRDMA_MAX_DATA_SEGS) is 5000, must be 1 to 4096, pages"},
		{"sweep -k size=9 -k ord=129 -q", 1, "ORD (max_outbound_read_requests) is 129, must be 1 to 128"},
		{"sweep -k wsize=5000 -q", 1, "WSize (wsize) is 5000, must be"},
		{"sweep -k ord=1 -counter read_chunk_cuont", 1, "did you mean read_chunk_count"},
		{"sweep -k ord=1 -shard 5/4", 1, `Shard is "5/4", must be 1/N to N/N`},
		{"sweep -k ord=1 -o x.doc", 1, `suffix ".doc" says no format; there are .txt .csv .json .jsonl .bench`},
		{"sweep -k ord=1 -o " + dir + "/none/x.csv", 1, "there is no directory"},
		{"sweep -k ord=1 -o " + dir + "/x.csv -o " + dir + "/x.csv", 1, "given twice"},
		{"sweep -k ord=1 -format xml", 2, "xml"},
		{"merge", 2, "expected"},
		{"merge " + dir + "/none.jsonl", 2, "none.jsonl"},
		{"merge " + bad, 1, "line 1: not a cell of a sweep"},
	} {
		status, _, errOut := runCLI(t, strings.Fields(c.args)...)
		assert.Equal(t, c.status, status, c.args)
		assert.Contains(t, errOut, c.want, c.args)
	}
	status, out, _ := runCLI(t, "sweep", "-knobs")
	assert.Zero(t, status)
	assert.Regexp(t, `(?m)^RegMode +rdma_memreg_strategy, mode +name: .*fastreg`, out)
}

// On a terminal there is a bar; here it draws to a file that is none.
func TestSweepBarEnds(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer f.Close()
	for _, done := range []int{0, 2, 3} {
		b := newBar(f, 3)
		for i := range done {
			b.step(fabric.SweepProgress{Done: i + 1, Total: 3, Failed: i})
		}
		b.end()
	}
}
