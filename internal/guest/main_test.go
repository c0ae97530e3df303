package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommandLine(t *testing.T) {
	for want, args := range map[string][]string{
		"no command":            {},
		`unknown command "dig"`: {"dig"},
		"setup: 1 arguments":    {"setup", "now"},
		"exec: 0 arguments":     {"exec", "-dev", "rxe"},
		"not defined: -colour":  {"shell", "-colour"},
		`device "eth0"`:         {"exec", "-dev", "eth0", "true"},
		"timeout 0s":            {"exec", "-timeout", "0s", "true"},
		`no suite "x"`:          {"test", "-suite", "x"},
		`device "mlx5_0"`:       {"test", "-dev", "mlx5_0"},
		"name this machine's":   {"direct"},
		"no RDMA device nosuch": {"direct", "-dev", "nosuch"},
	} {
		assert.ErrorContains(t, run(t.Context(), args, io.Discard), want)
	}
}
