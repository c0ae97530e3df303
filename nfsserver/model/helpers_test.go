package model

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// rig is a memfs in virtual time, and tasks that use what stands before it.
type rig struct {
	t   *testing.T
	s   *sched.Sched
	mem *memfs.FS
	fs  vfs.FS
	g   *sched.Group
}

func newTestRig(t *testing.T) *rig {
	t.Helper()
	s := sched.NewVirtual(1)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	mem := memfs.New(memfs.Options{TrackUnstable: true})
	return &rig{t: t, s: s, mem: mem, fs: mem, g: s.NewGroup("tasks of the test")}
}

func (r *rig) create(name string) vfs.ID {
	r.t.Helper()
	var a vfs.Attr
	require.NoError(r.t, r.fs.Create(bg, r.fs.Root(), name, vfs.Guarded, 0, &vfs.SetAttr{}, &a, nil))
	return a.ID
}

func (r *rig) write(id vfs.ID, off uint64, n int) {
	assert.NoError(r.t, r.fs.Write(bg, id, off, make([]byte, n), false, nil))
}

func (r *rig) commit(id vfs.ID, off, n uint64) {
	assert.NoError(r.t, r.fs.Commit(bg, id, off, n, nil))
}

// read fails only if ctx ends.
func (r *rig) read(ctx context.Context, id vfs.ID, off uint64, n int) error {
	var a vfs.Attr
	_, _, err := r.fs.Read(ctx, id, off, make([]byte, n), &a)
	return err
}

// took is how long f takes.
func (r *rig) took(f func()) sched.Duration {
	from := r.s.Now()
	f()
	return r.s.Now().Sub(from)
}

// together runs all of f at once, and is how long that takes.
func (r *rig) together(f ...func()) sched.Duration {
	r.t.Helper()
	return r.took(func() {
		for _, x := range f {
			r.g.Go("task", x)
		}
		require.NoError(r.t, r.g.Wait(bg))
	})
}

// usage is what the meter of a name says.
func (r *rig) usage(name string) sched.Usage {
	r.t.Helper()
	for _, u := range r.s.Usage() {
		if u.Name == name {
			return u
		}
	}
	assert.Fail(r.t, "no meter", "%q; there are %+v", name, r.s.Usage())
	return sched.Usage{}
}
