package rpcrdma_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpcrdma"
)

// TestPrivateData has the private data of Linux 6.1, the client's padded as the connection request
// carries it (C46, C48).
func TestPrivateData(t *testing.T) {
	for _, c := range []struct {
		name, wire, print string
		want              rpcrdma.PrivateData
	}{
		{"Linux client, rxe", "f6ab0e180101030300000000000000000000000000000000", "send=4096 recv=4096 remote_inv=true",
			rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}},
		{"Linux client, siw", "f6ab0e1801010303", "send=4096 recv=4096 remote_inv=true",
			rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}},
		{"Linux server", "f6ab0e1801000303", "send=4096 recv=4096 remote_inv=false",
			rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}},
		{"least and most", "f6ab0e18010000ff", "send=1024 recv=262144 remote_inv=false",
			rpcrdma.PrivateData{SendSize: 1024, RecvSize: 262144}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := hex.DecodeString(c.wire)
			require.NoError(t, err)
			got, ok := rpcrdma.ConsumePrivateData(b)
			require.True(t, ok)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.print, got.String())
			assert.Equal(t, c.wire[:16], hex.EncodeToString(rpcrdma.AppendPrivateData(nil, got)))
			for i := range rpcrdma.PrivateDataLen {
				got, ok := rpcrdma.ConsumePrivateData(b[:i])
				assert.False(t, ok)
				assert.Equal(t, rpcrdma.DefaultPrivateData, got)
			}
		})
	}
}

func TestPrivateDataInvalid(t *testing.T) {
	for name, wire := range map[string]string{
		"magic":     "f6ab0e1901010303",
		"version 0": "f6ab0e1800010303",
		"version 2": "f6ab0e1802010303",
	} {
		b, _ := hex.DecodeString(wire)
		got, ok := rpcrdma.ConsumePrivateData(b)
		assert.False(t, ok, name)
		assert.Equal(t, rpcrdma.PrivateData{SendSize: 1024, RecvSize: 1024}, got, "C49")
	}
	b, _ := hex.DecodeString("f6ab0e1801fe0303")
	got, ok := rpcrdma.ConsumePrivateData(b)
	assert.True(t, ok, "reserved flags are ignored")
	assert.False(t, got.RemoteInvalidate)
}

func TestPrivateDataSizes(t *testing.T) {
	for size, want := range map[int]int{-1: 1024, 0: 1024, 1024: 1024, 2047: 1024, 4096: 4096, 5000: 4096, 262144: 262144, 1 << 30: 262144} {
		got, ok := rpcrdma.ConsumePrivateData(rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: size, RecvSize: size}))
		require.True(t, ok)
		assert.Equal(t, want, got.SendSize, "%d bytes", size)
		assert.Equal(t, want, got.RecvSize, "%d bytes", size)
	}
}
