package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
)

func TestChaosCommand(t *testing.T) {
	status, out, errs := runCLI(t, "chaos", "-seeds", "4", "-mode", "fastreg", "-proto", "rdma", "-device-profile", "MT25208")
	require.Equal(t, 0, status, out+errs)
	assert.Contains(t, out, "4 from 0 on, each twice; 0 failed")
	assert.Contains(t, out, "fastreg 4")
	assert.Contains(t, out, "MT25208 4")
	assert.Contains(t, errs, "chaos: 4 of 4 seeds")

	status, out, _ = runCLI(t, "chaos", "-seeds", "1", "-q", "-once", "-format", "json", "-proto", "tcp", "-faults", "crash op=WRITE nth=3 by=5ms")
	require.Equal(t, 0, status)
	var s fabric.ChaosSummary
	require.NoError(t, json.Unmarshal([]byte(out), &s))
	assert.Equal(t, 1, s.Times["crash"])
	assert.Equal(t, map[string]int{"tcp": 1}, s.Ways)
	assert.Positive(t, s.Reconnects)

	// What never fires fails; the faults without which it still fails are left out, and the command says so again.
	status, out, errs = runCLI(t, "chaos", "-seeds", "1", "-q", "-faults", "drop kind=SEND nth=3 optional; eio op=MKNOD nth=2; slow op=READ every=2 optional")
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "1 seeds failed")
	assert.Contains(t, out, "the least that fails: eio op=MKNOD nth=2\n")
	assert.Contains(t, out, "again: nfsrdma chaos -seed 0 -seeds 1 -faults 'eio op=MKNOD nth=2'\n")

	status, _, errs = runCLI(t, "chaos", "-faults", "explode")
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "no fault \"explode\"")
	status, out, _ = runCLI(t, "chaos", "-kinds")
	assert.Equal(t, 0, status)
	assert.Contains(t, out, "REQ REP RTU REJ DREQ")
}
