package fabric_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
)

// smallMatrix has 16 cells that take little time.
func smallMatrix() fabric.Matrix {
	return fabric.Matrix{
		Params: fabric.Params{Link: &fabric.IBSDR, Seed: 3},
		Load:   fabric.Load{Op: fabric.Write, Depth: 4, Calls: 16, Warm: 4, FileSize: 256 << 10},
		Knobs: []fabric.Knob{
			{"segs", "4,16"}, {"ORD", "1,4"}, {"RegMode", "fastreg,all-physical"}, {"bs", "16K,64K"},
		},
		Counters: []string{"read_chunk_count", "server.rdma_stat_read"},
	}
}

// text is all formats one after the other.
func text(t *testing.T, r *fabric.SweepResult) string {
	t.Helper()
	var b bytes.Buffer
	for _, f := range fabric.SweepFormats() {
		require.NoError(t, r.Write(&b, f), f)
	}
	return b.String()
}

func TestSweepIsTheSameWithAnyNumberOfWorkers(t *testing.T) {
	m := smallMatrix()
	m.Workers = 1
	want := text(t, fabric.Sweep(t, m))
	m.Workers = 7
	require.Equal(t, want, text(t, fabric.Sweep(t, m)))
	m.Params.Seed = 4
	require.NotEqual(t, want, text(t, fabric.Sweep(t, m)), "another seed")
}

func TestSweepCells(t *testing.T) {
	r := fabric.Sweep(t, smallMatrix())
	require.Len(t, r.Cells, 16)
	seeds := map[uint64]bool{}
	for i, c := range r.Cells {
		assert.Equal(t, i, c.Index)
		assert.Equal(t, 16, c.Of)
		assert.EqualValues(t, 16, c.Calls, c.Params)
		assert.EqualValues(t, 16*c.Size, c.Bytes, c.Params)
		assert.InEpsilon(t, float64(c.Bytes)/(float64(c.Elapsed)/1e9), c.Throughput, 1e-5)
		assert.NotEmpty(t, c.Bound.Resource)
		assert.Contains(t, c.Why, c.Bound.Resource)
		assert.False(t, seeds[c.Seed], "a seed of its own")
		seeds[c.Seed] = true
	}
	assert.Equal(t, "MaxDataSegs=4 ORD=1 RegMode=fastreg IOSize=16K", r.Cells[0].Params.String())
	assert.Equal(t, "MaxDataSegs=4 ORD=1 RegMode=fastreg IOSize=64K", r.Cells[1].Params.String(), "the last knob turns fastest")
	assert.Equal(t, 16<<10, r.Cells[1].Size, "four segments carry no more")
	last := r.Cells[15]
	assert.Equal(t, 64<<10, last.Size)
	assert.Equal(t, "read_chunk_count", last.Counters[0].Name)
	assert.EqualValues(t, 16*(16+4), last.Counters[0].Value, "all-physical: a segment a page, warming calls included")
}

// A cell alone gives what it gives in the matrix.
func TestSweepCellAlone(t *testing.T) {
	m := smallMatrix()
	all := fabric.Sweep(t, m)
	for i, v := range []string{"16", "4", "all-physical", "64K"} {
		m.Knobs[i].Values = v
	}
	one := fabric.Sweep(t, m).Cells[0]
	last := all.Cells[len(all.Cells)-1]
	one.Sweep, one.Index, one.Of = last.Sweep, last.Index, last.Of
	require.Equal(t, last, one)
}

func TestSweepShardedAndMergedIsTheSame(t *testing.T) {
	m := smallMatrix()
	want := text(t, fabric.Sweep(t, m))
	dir := t.TempDir()
	var files []string
	for i := range 4 {
		m.Shard = fabric.Shard{Index: 3 - i, Count: 4}
		r := fabric.Sweep(t, m)
		require.Len(t, r.Cells, 4)
		// Pieces may be of either JSON format.
		files = append(files, filepath.Join(dir, fmt.Sprintf("%d.json%s", i, []string{"", "l"}[i%2])))
		require.NoError(t, r.WriteFile(files[i]))
	}
	got, err := fabric.MergeSweeps(files...)
	require.NoError(t, err)
	require.Equal(t, want, text(t, got))

	_, err = fabric.MergeSweeps(files[0], files[1], files[3])
	assert.ErrorContains(t, err, "4 of 16 cells are missing: 1, 5, 9, ")
	_, err = fabric.MergeSweeps(append(files, files[2])...)
	assert.ErrorContains(t, err, "is double: in "+files[2])
	m.Note = "another"
	other := filepath.Join(dir, "other.jsonl")
	require.NoError(t, fabric.Sweep(t, m).WriteFile(other))
	_, err = fabric.MergeSweeps(files[0], other)
	assert.ErrorContains(t, err, other+" is of sweep ")
}

// What is interrupted at any place and goes on ends in the same bytes as what ran at once.
func TestSweepResume(t *testing.T) {
	m := smallMatrix()
	m.Workers = 2
	dir := t.TempDir()
	m.File = filepath.Join(dir, "whole.jsonl")
	fabric.Sweep(t, m)
	whole, err := os.ReadFile(m.File)
	require.NoError(t, err)
	require.Equal(t, 16, bytes.Count(whole, []byte("\n")))

	m.File = filepath.Join(dir, "pieces.jsonl")
	ran := 0
	for round := 0; ; round++ {
		require.Less(t, round, 20)
		ctx, cancel := context.WithCancel(t.Context())
		fresh, resumed := 0, 0
		m.Progress = func(p fabric.SweepProgress) {
			assert.Equal(t, 16, p.Total)
			if p.Resumed {
				resumed++
			} else if fresh++; fresh == 3 {
				cancel()
			}
		}
		r, err := fabric.SweepAll(ctx, m)
		cancel()
		require.NotNil(t, r)
		assert.Equal(t, ran, resumed, "nothing that was done is lost, or run again")
		ran += fresh
		assert.Len(t, r.Cells, ran)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		// As if it had been killed while it wrote: a piece of a line.
		b, err := os.ReadFile(m.File)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(m.File, append(b, whole[:(round*37)%200]...), 0o644))
	}
	require.Equal(t, 16, ran)
	got, err := os.ReadFile(m.File)
	require.NoError(t, err)
	require.Equal(t, string(whole), string(got))
}

func TestSweepFileOfAnother(t *testing.T) {
	m := smallMatrix()
	m.Knobs = []fabric.Knob{{"ORD", "1,2"}}
	m.File = filepath.Join(t.TempDir(), "x.jsonl")
	fabric.Sweep(t, m)
	before, err := os.ReadFile(m.File)
	require.NoError(t, err)
	m.Load.Depth++
	_, err = fabric.SweepAll(t.Context(), m)
	require.ErrorContains(t, err, "another sweep")
	after, err := os.ReadFile(m.File)
	require.NoError(t, err)
	assert.Equal(t, before, after)

	require.NoError(t, os.WriteFile(m.File, []byte("something else\n"), 0o644))
	_, err = fabric.SweepAll(t.Context(), m)
	require.ErrorContains(t, err, "line 1: not a cell of a sweep")
}

func TestSweepFileInUse(t *testing.T) {
	m := smallMatrix()
	m.Knobs = []fabric.Knob{{"ORD", "1,2"}}
	m.File = filepath.Join(t.TempDir(), "x.jsonl")
	var inner error
	m.Progress = func(fabric.SweepProgress) {
		again := m
		again.Progress = nil
		_, inner = fabric.SweepAll(t.Context(), again)
	}
	fabric.Sweep(t, m)
	require.ErrorContains(t, inner, "in use by another run")
}

// A cell that fails is a result, and the others go on.
func TestSweepFailingCells(t *testing.T) {
	m := smallMatrix()
	m.Knobs = []fabric.Knob{{"ORD", "1,64,200,4"}, {"Personality", "RoCE,mt25208"}}
	r, err := fabric.SweepAll(t.Context(), m)
	require.NoError(t, err)
	require.Len(t, r.Cells, 8)
	failed := map[string]string{}
	for _, c := range r.Failed() {
		failed[c.Params.String()] = c.Error
		assert.Zero(t, c.Throughput)
	}
	require.Len(t, failed, 3)
	assert.Contains(t, failed["ORD=64 Personality=MT25208"], "ORD (max_outbound_read_requests) is 64, must be 1 to 32, the device's max_qp_init_rd_atom")
	assert.Contains(t, failed["ORD=200 Personality=RoCE"], "is 200, must be 1 to 128")
	assert.Contains(t, failed["ORD=200 Personality=MT25208"], "is 200, must be 1 to 32")
	assert.Contains(t, text(t, r), "--- FAIL: BenchmarkSweep/ORD=64/Personality=MT25208\n")

	m.Workers = 1
	tb := &recordTB{TB: t}
	fabric.Sweep(tb, m)
	require.Len(t, tb.errors, 3)
	assert.Contains(t, tb.errors[0], "ORD=64 Personality=MT25208 (seed ")
}

// recordTB keeps errors instead of failing.
type recordTB struct {
	fabric.TB
	errors []string
}

func (r *recordTB) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestSweepStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := fabric.SweepAll(ctx, smallMatrix())
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, r.Cells)

	m := smallMatrix()
	m.Load.Calls = 1 << 40 // longer than any test
	m.Workers = 2
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	var lines atomic.Int64
	m.Params.Client = func(c *nfsclient.Config) {
		c.Trace = func(string) {
			if lines.Add(1) == 1000 {
				cancel()
			}
		}
	}
	r, err = fabric.SweepAll(ctx, m)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, r.Cells, "a cell that was cut off is no result")
	assert.Less(t, lines.Load(), int64(100_000))
}
