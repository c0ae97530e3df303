package chunkfuzz

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/verbs/softroce"
)

// TestRunLive fuzzes a server in the way of a user: live, over its address.
func TestRunLive(t *testing.T) {
	net := softroce.NewNetwork(nil, softroce.NetConfig{})
	sdev, err := net.NewDevice("server", softroce.RoCE)
	require.NoError(t, err)
	cdev, err := net.NewDevice("client", softroce.RoCE)
	require.NoError(t, err)
	srv, err := nfsserver.New(nfsserver.Config{Device: sdev, Exports: []nfsserver.Export{{Path: "/x", FS: memfs.New(memfs.Options{RootMode: 0o777})}}})
	require.NoError(t, err)
	rep := Run(t, func(ctx context.Context) (*Requester, error) {
		return Dial(ctx, Config{Device: cdev, Addr: srv.Addr(), Silence: 1e7})
	}, Options{Calls: 300, Export: "/x"})
	assert.Equal(t, 300, rep.Calls)
	assert.NoError(t, srv.Close())
	assert.NoError(t, cdev.Close())
	assert.NoError(t, sdev.Close())
	assert.NoError(t, net.Close())
}
