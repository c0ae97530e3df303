package nfsclient_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/nfsclient"
)

// portmapper answers GETPORT on a loopback port until the end of the test.
func portmapper(t *testing.T, ports map[uint32]uint32) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answerGetport(t, c, ports)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func answerGetport(t *testing.T, c net.Conn, ports map[uint32]uint32) {
	var mark [4]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		return
	}
	n, _, _ := rpc.ConsumeRecordMark(mark[:])
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		return
	}
	var call rpc.Call
	k, err := rpc.ConsumeCall(b, &call)
	assert.NoError(t, err)
	assert.Equal(t, [3]uint32{100000, 2, 3}, [3]uint32{call.Prog, call.Vers, call.Proc})
	r := xdr.NewReader(b[k:])
	prog, vers, proto, zero := r.Uint32("prog"), r.Uint32("vers"), r.Uint32("prot"), r.Uint32("port")
	assert.NoError(t, r.Err())
	assert.Equal(t, [3]uint32{3, 6, 0}, [3]uint32{vers, proto, zero})
	msg := xdr.AppendUint32(rpc.AppendReplySuccess(nil, call.XID), ports[prog])
	_, _ = c.Write(append(rpc.AppendRecordMark(nil, len(msg), true), msg...))
}

func TestPortmap(t *testing.T) {
	ctx := context.Background()
	addr := portmapper(t, map[uint32]uint32{nfsclient.ProgramNFS: 2049, nfsclient.ProgramMount: 70_000})
	port, err := nfsclient.Portmap(ctx, nil, addr, nfsclient.ProgramNFS)
	require.NoError(t, err)
	assert.Equal(t, 2049, port)
	_, err = nfsclient.Portmap(ctx, nil, addr, 100021)
	require.ErrorIs(t, err, nfsclient.ErrNotRegistered)
	_, err = nfsclient.Portmap(ctx, nil, addr, nfsclient.ProgramMount)
	require.ErrorIs(t, err, nfsclient.ErrBadReply)
	_, err = nfsclient.Portmap(ctx, nil, "127.0.0.1:1", nfsclient.ProgramNFS)
	require.ErrorContains(t, err, "refused")
}
