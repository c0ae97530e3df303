package nfsserver_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// newTCP starts a server on a loopback port, and closes and checks it at the end of the test.
func newTCP(t testing.TB, change ...func(*nfsserver.Config)) (*nfsserver.Server, *memfs.FS) {
	t.Helper()
	mem := memfs.New(memfs.Options{RootMode: 0o777})
	cfg := nfsserver.Config{TCP: []string{"127.0.0.1:0"}, Exports: []nfsserver.Export{{FS: mem}}}
	for _, f := range change {
		f(&cfg)
	}
	srv, err := nfsserver.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, srv.Close())
		assert.Zero(t, srv.Outstanding())
		assert.Zero(t, mem.Pinned(), "pages that are still lent")
		assert.NoError(t, mem.CheckConsistent())
	})
	return srv, mem
}

// mountTCP mounts it.
func mountTCP(t testing.TB, srv *nfsserver.Server, change ...func(*nfsclient.Config)) *nfsclient.Mount {
	t.Helper()
	cfg := nfsclient.Config{Proto: nfsclient.TCP, Addr: srv.TCPAddrs()[0], ReconnectMin: 10 * time.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	m, err := nfsclient.New(bg, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func TestTCPFiles(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("lends=%t", !plain), func(t *testing.T) {
			srv, _ := newTCP(t, func(c *nfsserver.Config) {
				if plain {
					c.Exports[0].FS = vfs.Plain(c.Exports[0].FS)
				}
			})
			m := mountTCP(t, srv)
			for _, n := range []int{0, 1, 3, 100, 4096, 4097, 16384, 17000, 65536, 1<<20 - 1, 1 << 20, 5<<20 + 13} {
				name := fmt.Sprint("f", n)
				want := randomBytes(n)
				require.NoError(t, m.WriteFile(bg, name, want, 0o644))
				got, err := m.ReadFile(bg, name)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got), "%d bytes", n)
			}
			st := srv.Stats()
			assert.Positive(t, st.TCP.Pulls)
			assert.Equal(t, plain, st.ZeroCopyReads == 0)
			assert.Equal(t, plain, st.ZeroCopyWrites == 0)
			assert.Equal(t, nfsclient.TCP, m.Negotiated().Proto)
			require.NoError(t, m.Unmount(bg))
			require.NoError(t, srv.Close())
			st = srv.Stats()
			assert.Equal(t, st.TCP.Recv, st.TCP.Send)
		})
	}
}

func TestTCPNamesAndLinks(t *testing.T) {
	srv, _ := newTCP(t)
	m := mountTCP(t, srv)
	require.NoError(t, m.MkdirAll(bg, "a/b", 0o755))
	dir, err := m.Lookup(bg, m.Root(), "a")
	require.NoError(t, err)
	target := string(bytes.Repeat([]byte("x/"), 2000))
	_, err = m.Symlink(bg, dir.FH, "link", target, nil)
	require.NoError(t, err)
	l, err := m.Lookup(bg, dir.FH, "link")
	require.NoError(t, err)
	got, err := m.ReadLink(bg, l.FH)
	require.NoError(t, err)
	assert.Equal(t, target, got)
	names := map[string]bool{}
	for i := range 3000 {
		n := fmt.Sprintf("%0200d", i)
		_, err := m.Create(bg, dir.FH, n, nfsclient.CreateHow{})
		require.NoError(t, err)
		names[n] = true
	}
	list, err := fs.ReadDir(m.FS(bg), "a")
	require.NoError(t, err)
	for _, e := range list {
		delete(names, e.Name())
	}
	assert.Empty(t, names)
	assert.Len(t, list, 3002)
	_, err = m.Lookup(bg, dir.FH, "nothing")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestTCPManyCallers(t *testing.T) {
	srv, _ := newTCP(t, func(c *nfsserver.Config) { c.Credits, c.PayloadMemory = 4, 3<<20 })
	m := mountTCP(t, srv, func(c *nfsclient.Config) { c.Credits = 16 })
	want := randomBytes(300_001)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			name := fmt.Sprint("f", i)
			ctx := bg
			if i%2 == 0 { // the calls go another way when they can be cancelled
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(bg)
				defer cancel()
			}
			for range 5 {
				if !assert.NoError(t, m.WriteFile(ctx, name, want, 0o644)) {
					return
				}
				got, err := m.ReadFile(ctx, name)
				if !assert.NoError(t, err) || !assert.True(t, bytes.Equal(want, got)) {
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestTCPReconnect(t *testing.T) {
	srv, _ := newTCP(t)
	m := mountTCP(t, srv)
	want := randomBytes(2 << 20)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if n%2 == 0 {
				srv.Disconnect()
			} else {
				m.Disconnect()
			}
			_ = m.Null(bg)
		}
	})
	for i := range 20 {
		name := fmt.Sprint("f", i)
		require.NoError(t, m.WriteFile(bg, name, want, 0o644))
		got, err := m.ReadFile(bg, name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	}
	close(stop)
	wg.Wait()
	assert.Greater(t, counter(m, "connect_count"), uint64(3))
}

func counter(m *nfsclient.Mount, name string) uint64 {
	for _, c := range m.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}

// TestTCPAndRDMATogether has one server with both: what is written over one is read over the other, by the same threads.
func TestTCPAndRDMATogether(t *testing.T) {
	e := newEnv(t, envOpt{live: true, noPeer: true, cfg: nfsserver.Config{Threads: 2, TCP: []string{"127.0.0.1:0", "127.0.0.1:0"}}})
	over := []*nfsclient.Mount{
		mountTCP(t, e.srv),
		mountTCP(t, e.srv, func(c *nfsclient.Config) { c.Sched, c.MountAddr = e.s, e.srv.TCPAddrs()[1] }),
		mountTCP(t, e.srv, func(c *nfsclient.Config) {
			c.Proto, c.Device, c.Sched, c.Addr = nfsclient.RDMA, e.cdev, e.s, e.srv.Addr()
		}),
		mountTCP(t, e.srv, func(c *nfsclient.Config) {
			c.Proto, c.Device, c.Sched, c.Addr = nfsclient.RDMA, e.cdev, e.s, e.srv.Addr()
			c.MountAddr = e.srv.TCPAddrs()[1]
		}),
	}
	for i, w := range over {
		want := randomBytes(200_003)
		require.NoError(t, w.WriteFile(bg, fmt.Sprint(i), want, 0o644))
		for _, r := range over {
			got, err := r.ReadFile(bg, fmt.Sprint(i))
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got))
		}
	}
	protos := map[string]int{}
	for _, c := range e.srv.Connections() {
		protos[c.Proto]++
	}
	assert.Equal(t, map[string]int{"tcp": 2, "rdma": 2}, protos)
	for _, m := range over {
		require.NoError(t, m.Unmount(bg))
	}
	assert.EqualValues(t, 8, e.srv.Stats().Mount)
}

// TestTCPAllocations: a call allocates nothing once warm.
func TestTCPAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	srv, _ := newTCP(t)
	m := mountTCP(t, srv)
	require.NoError(t, m.WriteFile(bg, "f", make([]byte, 64<<20), 0o644))
	fh, _, err := m.LookupPath(bg, "f")
	require.NoError(t, err)
	for _, size := range []int{4096, 64 << 10} {
		for _, write := range []bool{false, true} {
			const calls = 400
			runTCP(t, m, fh, write, size, 8, 2000)
			n := testing.AllocsPerRun(5, func() { runTCP(t, m, fh, write, size, 8, calls) })
			// The tasks and buffers of a run are some 40.
			assert.Less(t, n, float64(calls)/4, "%d bytes, write=%t: %v for %d calls", size, write, n, calls)
		}
	}
}

func TestTCPSchedulerMustBeLive(t *testing.T) {
	s := sched.NewVirtual(1)
	_, err := nfsserver.New(nfsserver.Config{Sched: s, TCP: []string{"127.0.0.1:0"}, Exports: []nfsserver.Export{{FS: memfs.New(memfs.Options{})}}})
	require.ErrorContains(t, err, "virtual time")
	_, err = nfsclient.New(bg, nfsclient.Config{Sched: s, Proto: nfsclient.TCP, Addr: "127.0.0.1:1"})
	require.ErrorContains(t, err, "virtual time")
	_, err = nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{FS: memfs.New(memfs.Options{})}}})
	require.ErrorContains(t, err, "no TCP address")
	require.NoError(t, s.Close())
}
