package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runCLI runs the command as a shell would.
func runCLI(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(env{context.Background(), &o, &e}, args)
	return status, o.String(), e.String()
}

func TestRunSegmentsTwiceGivesTheSameBytes(t *testing.T) {
	s1, a, _ := runCLI(t, "run", "segments", "-seed", "7", "-format", "json", "-q")
	s2, b, progress := runCLI(t, "run", "segments", "--seed=7", "--format=json")
	require.Zero(t, s1+s2)
	assert.Contains(t, progress, "segments: 20 of ")
	require.Equal(t, a, b)

	var r struct {
		Scenario string
		Seed     uint64
		Rows     []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(a), &r))
	assert.Equal(t, "segments", r.Scenario)
	assert.EqualValues(t, 7, r.Seed)
	require.Greater(t, len(r.Rows), 100)
	verdicts := map[any]int{}
	for _, row := range r.Rows {
		for _, k := range []string{"name", "params", "reported", "measured", "unit", "error", "verdict"} {
			assert.Contains(t, row, k)
		}
		assert.IsType(t, map[string]any{}, row["params"], "row %v", row["name"])
		verdicts[row["verdict"]]++
	}
	assert.Zero(t, verdicts["miss"])
	assert.Equal(t, len(r.Rows), verdicts["ok"]+verdicts["known-miss"]+verdicts["info"])
}

func TestListAndExplain(t *testing.T) {
	status, out, _ := runCLI(t, "list")
	require.Zero(t, status)
	assert.Regexp(t, `(?m)^segments +WRITE throughput against RPCRDMA_MAX_DATA_SEGS`, out)
	for _, name := range []string{"commit", "sendbuf", "splice"} {
		assert.Regexp(t, `(?m)^`+name+` +\S`, out)
		status, text, _ := runCLI(t, "run", name, "--explain")
		require.Zero(t, status)
		assert.Contains(t, text, "Mechanism:")
		assert.Contains(t, text, "SOURCE")
	}
	status, out, _ = runCLI(t, "run", "segments", "--explain")
	require.Zero(t, status)
	for _, want := range []string{"Reported:", "Mechanism:", "SOURCE", "fitted to", "kernel source", "assumed", "reported"} {
		assert.Contains(t, out, want)
	}
}

func TestRunSplice(t *testing.T) {
	status, out, _ := runCLI(t, "run", "splice", "-q")
	require.Zero(t, status)
	assert.Regexp(t, `splice, seed 1: \d+ rows: \d+ ok, 0 miss`, out)
}

func TestHelpAndErrors(t *testing.T) {
	for _, args := range [][]string{{}, {"-h"}, {"--help"}, {"run", "-h"}, {"bench", "--help"}, {"help"}, {"help", "run"}} {
		status, out, _ := runCLI(t, args...)
		assert.Zero(t, status, "%v", args)
		assert.Contains(t, out, "Usage: nfsrdma", "%v", args)
	}
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"run nothing", 1, `no scenario "nothing"; there are [commit segments`},
		{"run", 2, "expected"},
		{"run segments -format xml", 2, `"text","json"`},
		{"run segments -seed x", 2, "seed"},
		{"frobnicate", 2, "frobnicate"},
		{"bench -mode magic", 2, "magic"},
		{"bench -mode 6", 2, "the era of the strategy number is missing"},
		{"bench -only nosuch -time 1ms", 1, "read4k_per_s"},
		{"bench -time 0", 1, "time"},
		{"run segments --explain --format=json", 1, "text only"},
	} {
		status, _, errOut := runCLI(t, strings.Fields(c.args)...)
		assert.Equal(t, c.status, status, c.args)
		assert.Contains(t, errOut, c.want, c.args)
	}
}

func TestDevices(t *testing.T) {
	status, out, _ := runCLI(t, "devices")
	require.Zero(t, status)
	for _, want := range []string{"softroce:RoCE", "softroce:MT25208", "softroce:T310"} {
		assert.Contains(t, out, want)
	}
}

func TestBench(t *testing.T) {
	status, out, errOut := runCLI(t, "bench", "-time", "20ms", "-format", "json", "-only", "1m_MBps", "-q")
	require.Zero(t, status, errOut)
	var m map[string]float64
	require.NoError(t, json.Unmarshal([]byte(out), &m))
	for _, k := range []string{"memcpy1m_MBps", "engine_per_s", "read1m_MBps", "write1m_MBps"} {
		assert.Positive(t, m[k], k)
	}
	status, out, _ = runCLI(t, "bench", "-time", "20ms", "-only", "read4k_per_s", "-q")
	require.Zero(t, status)
	assert.Regexp(t, `read4k_per_s +\d+ +\d\.\d\d of engine_per_s`, out)
	assert.Regexp(t, `tcp_read4k_per_s +\d+ +\d\.\d\d of read4k_per_s`, out)
	assert.Regexp(t, `rdma_over_tcp_read4k +\d+\.\d\d`, out)
	status, out, _ = runCLI(t, "bench", "-time", "20ms", "-only", "tcp_write1m", "-format", "json", "-q")
	require.Zero(t, status)
	m = nil
	require.NoError(t, json.Unmarshal([]byte(out), &m))
	assert.InEpsilon(t, m["write1m_MBps"]/m["tcp_write1m_MBps"], m["rdma_over_tcp_write1m"], 1e-6, "both of one run")
}
