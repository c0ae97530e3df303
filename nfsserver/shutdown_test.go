package nfsserver_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
)

// TestShutdownAnswersWhatItHas, over both transports, and drops what comes later.
func TestShutdownAnswersWhatItHas(t *testing.T) {
	held := &heldFS{FS: memfs.New(memfs.Options{}), hold: make(chan struct{}), busy: make(chan struct{}, 100)}
	e := newEnv(t, envOpt{live: true, noPeer: true, cfg: nfsserver.Config{Threads: 8, TCP: []string{"127.0.0.1:0"},
		Exports: []nfsserver.Export{{FS: held}}}})
	tcp := mountTCP(t, e.srv)
	rdma := mountTCP(t, e.srv, func(c *nfsclient.Config) {
		c.Proto, c.Device, c.Sched, c.Addr = nfsclient.RDMA, e.cdev, e.s, e.srv.Addr()
	})
	late := dialRaw(t, e.srv)
	answered := make(chan error, 2)
	for _, m := range []*nfsclient.Mount{tcp, rdma} {
		go func() {
			_, err := m.FSStat(bg, m.Root())
			answered <- err
		}()
	}
	<-held.busy
	<-held.busy
	assert.Equal(t, 2, e.srv.Outstanding())
	done := make(chan error)
	go func() { done <- e.srv.Shutdown(bg) }()
	for e.srv.Stats().TCP.Dropped == 0 { // until it drains, this is answered
		late.send(late.call(nfs3.Program, 3, uint32(nfs3.NULL), nil), 0)
	}
	assert.GreaterOrEqual(t, e.srv.Outstanding(), 2)
	close(held.hold)
	require.NoError(t, <-answered)
	require.NoError(t, <-answered)
	require.NoError(t, <-done)
	late.wantClosed()
	require.NoError(t, tcp.Close())
	require.NoError(t, rdma.Close())
}

// TestShutdownDoesNotWaitForEver for a call that does not end.
func TestShutdownDoesNotWaitForEver(t *testing.T) {
	held := &heldFS{FS: memfs.New(memfs.Options{}), hold: make(chan struct{}), busy: make(chan struct{}, 100)}
	srv, err := nfsserver.New(nfsserver.Config{TCP: []string{"127.0.0.1:0"}, Exports: []nfsserver.Export{{FS: held}}})
	require.NoError(t, err)
	r := dialRaw(t, srv)
	root := r.root()
	r.send(r.call(nfs3.Program, 3, uint32(nfs3.FSSTAT), nfs3.AppendFsstatArgs(nil, &nfs3.FsstatArgs{Root: root})), 0)
	<-held.busy
	ctx, cancel := context.WithCancel(bg)
	cancel()
	go func() {
		r.wantClosed() // although the call still runs
		close(held.hold)
	}()
	require.NoError(t, srv.Shutdown(ctx))
}
