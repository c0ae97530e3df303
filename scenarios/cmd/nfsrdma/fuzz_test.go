package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFuzzEmbedded(t *testing.T) {
	var out, errs bytes.Buffer
	e := env{ctx: context.Background(), out: &out, err: &errs}
	assert.Zero(t, run(e, []string{"fuzz", "-n", "500"}), "%s", &errs)
	assert.Contains(t, out.String(), "500 calls in ")
	assert.Contains(t, out.String(), "failures 0")

	out.Reset()
	assert.Zero(t, run(e, []string{"fuzz", "-input", "000000000000ac"}), "%s", &errs)
	assert.Contains(t, out.String(), "1 calls in ")
	assert.Contains(t, out.String(), "ERR_CHUNK 1,")

	assert.Equal(t, 1, run(e, []string{"fuzz", "-input", "xyz"}))

	for _, level := range []string{"verbs", "packets"} {
		out.Reset()
		assert.Zero(t, run(e, []string{"fuzz", "-level", level, "-n", "200"}), "%s", &errs)
		assert.Contains(t, out.String(), "200 ")
		assert.Contains(t, out.String(), "failures")
		assert.Zero(t, run(e, []string{"fuzz", "-level", level, "-input", "0000"}), "%s", &errs)
		assert.Equal(t, 1, run(e, []string{"fuzz", "-level", level, "host:1"}))
	}
	assert.NotZero(t, run(e, []string{"fuzz", "-level", "words"}))
}
