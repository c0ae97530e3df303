package nfsclient_test

import (
	"bytes"
	"context"
	"strings"
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

// tapeFS says that it is not ready, as often as not.
type tapeFS struct {
	vfs.FS
	not int // calls that are told so
}

func (f *tapeFS) ready() error {
	if f.not == 0 {
		return nil
	}
	f.not--
	return vfs.ErrJukebox
}

func (f *tapeFS) Read(ctx context.Context, id vfs.ID, off uint64, b []byte, a *vfs.Attr) (int, bool, error) {
	if err := f.ready(); err != nil {
		return 0, false, err
	}
	return f.FS.Read(ctx, id, off, b, a)
}

func (f *tapeFS) Write(ctx context.Context, id vfs.ID, off uint64, b []byte, stable bool, w *vfs.WCC) error {
	if err := f.ready(); err != nil {
		return err
	}
	return f.FS.Write(ctx, id, off, b, stable, w)
}

func (f *tapeFS) Create(ctx context.Context, dir vfs.ID, name string, mode vfs.CreateMode, verf uint64, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	if err := f.ready(); err != nil {
		return err
	}
	return f.FS.Create(ctx, dir, name, mode, verf, s, a, w)
}

func (f *tapeFS) ReadLink(ctx context.Context, id vfs.ID) (string, error) {
	if err := f.ready(); err != nil {
		return "", err
	}
	return f.FS.ReadLink(ctx, id)
}

func (f *tapeFS) Symlink(ctx context.Context, dir vfs.ID, name, target string, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	if err := f.ready(); err != nil {
		return err
	}
	return f.FS.Symlink(ctx, dir, name, target, s, a, w)
}

func (f *tapeFS) ReadDir(ctx context.Context, dir vfs.ID, cookie, verf uint64, emit func(*vfs.DirEntry) bool) (uint64, bool, error) {
	if err := f.ready(); err != nil {
		return 0, false, err
	}
	return f.FS.ReadDir(ctx, dir, cookie, verf, emit)
}

func (f *tapeFS) Attr(ctx context.Context, id vfs.ID, a *vfs.Attr) error {
	if err := f.ready(); err != nil {
		return err
	}
	return f.FS.Attr(ctx, id, a)
}

func withTape(f *tapeFS, set ...func(*nfsclient.Config)) envOption {
	return func(c *envConfig) {
		c.server.Exports = []nfsserver.Export{{FS: f}}
		for _, g := range set {
			g(&c.client)
		}
	}
}

func newTapeFS() *tapeFS {
	return &tapeFS{FS: vfs.Plain(memfs.New(memfs.Options{RootMode: 0o777}))}
}

// NFS3ERR_JUKEBOX is never seen: the call is made again each 5 s, with an XID that the duplicate request cache does not know.
func TestJukebox(t *testing.T) {
	fs := newTapeFS()
	e := newEnv(t, withTape(fs))
	root := e.m.Root()
	var fh nfsclient.FH
	buf := make([]byte, 10)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"CREATE", func() error {
			r, err := e.m.Create(bg, root, "a", nfsclient.CreateHow{Mode: nfsclient.GUARDED})
			fh = r.FH
			return err
		}},
		{"WRITE", func() error {
			_, err := e.m.Write(bg, fh, 0, []byte("0123456789"), nfsclient.FILE_SYNC)
			return err
		}},
		{"READ", func() error {
			n, _, err := e.m.Read(bg, fh, 0, buf)
			assert.Equal(t, 10, n)
			return err
		}},
		{"SYMLINK", func() error {
			r, err := e.m.Symlink(bg, root, "l", "a", nil)
			fh = r.FH
			return err
		}},
		{"READLINK", func() error {
			s, err := e.m.ReadLink(bg, fh)
			assert.Equal(t, "a", s)
			return err
		}},
		{"GETATTR", func() error { _, err := e.m.GetAttr(bg, root); return err }},
		{"READDIR", func() error { _, err := e.m.ReadDir(bg, root, 0, nfsclient.Verf{}, 0); return err }},
		{"READDIRPLUS", func() error { _, err := e.m.ReadDirPlus(bg, root, 0, nfsclient.Verf{}, 0, 0); return err }},
	} {
		fs.not = 3
		delays, began := e.m.Delays(), e.s.Now()
		require.NoError(t, c.do(), c.name)
		assert.EqualValues(t, 3, e.m.Delays()-delays, c.name)
		assert.Zero(t, fs.not, c.name)
		took := e.s.Now().Sub(began)
		assert.True(t, took >= 15*sched.Second && took < 15*sched.Second+sched.Millisecond, "%s took %v", c.name, took)
	}
	var b bytes.Buffer
	require.NoError(t, e.m.MountStats(&b))
	assert.Contains(t, b.String(), "\tevents:\t"+strings.Repeat("0 ", 24)+"24 0 0 \n")
}

// A wait ends with its context and with the mount; without JukeboxTime the status is an error.
func TestJukeboxEnds(t *testing.T) {
	fs := newTapeFS()
	e := newEnv(t, withTape(fs))
	fs.not = 1 << 30
	ctx, cancel := e.s.WithTimeout(bg, 7*sched.Second)
	_, err := e.m.GetAttr(ctx, e.m.Root())
	cancel()
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	g := e.s.NewGroup("a call")
	g.Go("getattr", func() {
		_, err := e.m.GetAttr(bg, e.m.Root())
		assert.ErrorIs(t, err, nfsclient.ErrClosed)
	})
	require.NoError(t, e.s.Sleep(bg, 12*sched.Second))
	began := e.s.Now()
	require.NoError(t, e.m.Close())
	require.NoError(t, g.Wait(bg))
	assert.Less(t, e.s.Now().Sub(began), sched.Second)

	fs = newTapeFS()
	e = newEnv(t, withTape(fs, func(c *nfsclient.Config) { c.JukeboxTime = -1 }))
	fs.not = 1
	_, err = e.m.GetAttr(bg, e.m.Root())
	assert.ErrorIs(t, err, nfsclient.NFS3ERR_JUKEBOX)

	fs = newTapeFS()
	e = newEnv(t, withTape(fs, func(c *nfsclient.Config) { c.JukeboxTime = time.Minute }))
	fs.not = 1
	_, err = e.m.GetAttr(bg, e.m.Root())
	assert.NoError(t, err)
	assert.GreaterOrEqual(t, e.s.Now(), sched.Time(60*sched.Second))
}
