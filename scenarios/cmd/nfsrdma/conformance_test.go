package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConformance(t *testing.T) {
	status, out, errOut := runCLI(t, "conformance")
	require.Zero(t, status, errOut)
	assert.Regexp(t, `C14 +RFC 8166 3\.4\.6 +responder +proved +ResponderWriteChunkComesBackWhole`, out)
	assert.Regexp(t, `C45 .* not yet +there is no backchannel`, out)
	assert.Contains(t, out, "52 rows: ")

	status, out, _ = runCLI(t, "conformance", "c14,C23", "-format", "json")
	require.Zero(t, status)
	var l []struct {
		ID, Who, Verdict string
		Checks           []struct{ Test, Who string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &l))
	require.Len(t, l, 2)
	assert.Equal(t, "responder", l[0].Who)
	assert.Equal(t, "C14/ResponderWriteChunkComesBackWhole", l[0].Checks[0].Test)

	status, out, errOut = runCLI(t, "conformance", "F01,F18", "-faults")
	require.Zero(t, status, errOut)
	assert.Regexp(t, `F01 +reported +responder +proved`, out)
	assert.Regexp(t, `F18 .* not yet`, out)

	status, _, errOut = runCLI(t, "conformance", "C99")
	assert.Equal(t, 1, status)
	assert.Contains(t, errOut, "no row C99")
	status, _, errOut = runCLI(t, "conformance", "-server", "tcp://x/")
	assert.Equal(t, 1, status)
	assert.Contains(t, errOut, "the checks are of RDMA")
}
