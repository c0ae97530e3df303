package nfsclient_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// env is a client and the real server, joined by soft-RoCE.
type env struct {
	t    testing.TB
	s    *sched.Sched
	net  *softroce.Network
	cdev *softroce.Device
	sdev *softroce.Device
	fs   *memfs.FS
	srv  *nfsserver.Server
	m    *nfsclient.Mount
}

type envConfig struct {
	live        bool
	personality softroce.Personality
	client      nfsclient.Config
	server      nfsserver.Config
}

type envOption func(*envConfig)

func live(c *envConfig) { c.live = true }

func client(f func(*nfsclient.Config)) envOption {
	return func(c *envConfig) { f(&c.client) }
}

func server(f func(*nfsserver.Config)) envOption {
	return func(c *envConfig) { f(&c.server) }
}

func mode(m nfsclient.RegMode) envOption {
	return client(func(c *nfsclient.Config) { c.RegMode = m })
}

var modes = nfsclient.RegModes()[1:] // all but Auto

// newEnv mounts, and at the end of the test wants nothing left on the client's device.
func newEnv(t testing.TB, opts ...envOption) *env {
	t.Helper()
	c := envConfig{personality: softroce.RoCE}
	for _, o := range opts {
		o(&c)
	}
	e := &env{t: t}
	if c.live {
		e.s = sched.NewLive(1)
	} else {
		e.s = sched.NewVirtual(1)
	}
	e.net = softroce.NewNetwork(e.s, softroce.NetConfig{})
	var err error
	e.sdev, err = e.net.NewDevice("server", c.personality)
	require.NoError(t, err)
	e.cdev, err = e.net.NewDevice("client", c.personality)
	require.NoError(t, err)
	c.server.Device, c.server.Sched = e.sdev, e.s
	if len(c.server.Exports) == 0 {
		e.fs = memfs.New(memfs.Options{RootMode: 0o777})
		c.server.Exports = []nfsserver.Export{{FS: e.fs}}
	}
	e.srv, err = nfsserver.New(c.server)
	require.NoError(t, err)
	c.client.Device, c.client.Sched, c.client.Addr = e.cdev, e.s, "server:20049"
	e.m, err = nfsclient.New(bg, c.client)
	require.NoError(t, err)
	t.Cleanup(e.close)
	return e
}

func (e *env) close() {
	assert.NoError(e.t, e.m.Close())
	assert.NoError(e.t, e.srv.Close())
	assert.Equal(e.t, verbs.Resources{}, e.cdev.Resources(), "left on the client's device")
	assert.NoError(e.t, e.cdev.Close())
	assert.NoError(e.t, e.sdev.Close())
	assert.NoError(e.t, e.net.Close())
	assert.NoError(e.t, e.s.Close())
}

func (e *env) counter(name string) int {
	for _, c := range e.m.Counters() {
		if c.Name == name {
			return int(c.Value)
		}
	}
	e.t.Errorf("no counter %s", name)
	return -1
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8) + byte(i>>16)*3 + seed
	}
	return b
}
