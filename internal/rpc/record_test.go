package rpc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"example.org/nfsrdma/internal/rpc"
)

func TestRecordMark(t *testing.T) {
	for _, c := range []struct {
		size int
		last bool
		wire string
	}{
		{40, true, "\x80\x00\x00\x28"}, // of a NULL call that Linux 6.1 sent
		{40, false, "\x00\x00\x00\x28"},
		{0, true, "\x80\x00\x00\x00"},
		{rpc.MaxFragment, true, "\xff\xff\xff\xff"},
	} {
		b := rpc.AppendRecordMark(nil, c.size, c.last)
		assert.Equal(t, c.wire, string(b))
		size, last, n := rpc.ConsumeRecordMark(b)
		assert.Equal(t, c.size, size)
		assert.Equal(t, c.last, last)
		assert.Equal(t, rpc.RecordMarkLen, n)
		put := make([]byte, rpc.RecordMarkLen)
		rpc.PutRecordMark(put, c.size, c.last)
		assert.Equal(t, b, put)
	}
	_, _, n := rpc.ConsumeRecordMark([]byte{1, 2, 3})
	assert.Negative(t, n)
}
