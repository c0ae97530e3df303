package vfstest

import (
	"context"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

// A Test checks one behaviour on an empty file system.
type Test func(t *testing.T, fs vfs.FS)

// Tests returns all tests by name.
func Tests() map[string]Test {
	all := make(map[string]Test)
	for _, m := range []map[string]Test{nameTests, renameTests, attrTests, dataTests, pageTests, readDirTests, hostileTests} {
		maps.Copy(all, m)
	}
	return all
}

// checked is a file system that can check itself.
type checked interface {
	CheckConsistent() error
	Pinned() int
}

// Run runs all tests but those whose name matches a pattern of skip (path.Match),
// each on a new file system, and lets a file system that can check itself do so.
func Run(t *testing.T, newFS func(t *testing.T) vfs.FS, skip ...string) {
	tests := Tests()
	used := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			for _, pattern := range skip {
				ok, err := path.Match(pattern, name)
				require.NoError(t, err)
				if ok {
					used[pattern] = true
					t.Skip("skipped by the caller")
				}
			}
			fs := newFS(t)
			tests[name](t, fs)
			if c, ok := fs.(checked); ok {
				assert.NoError(t, c.CheckConsistent())
				assert.Zero(t, c.Pinned(), "pages lent")
			}
		})
	}
	for _, pattern := range skip {
		assert.True(t, used[pattern], "skip %q matches no test", pattern)
	}
}

// harness makes calls that must succeed.
type harness struct {
	t   *testing.T
	fs  vfs.FS
	ctx context.Context
}

func newHarness(t *testing.T, fs vfs.FS) *harness {
	return &harness{t: t, fs: fs, ctx: t.Context()}
}

func (h *harness) root() vfs.ID { return h.fs.Root() }

func (h *harness) create(dir vfs.ID, name string) vfs.ID {
	h.t.Helper()
	var a vfs.Attr
	require.NoError(h.t, h.fs.Create(h.ctx, dir, name, vfs.Guarded, 0, &vfs.SetAttr{}, &a, &vfs.WCC{}))
	return a.ID
}

func (h *harness) mkdir(dir vfs.ID, name string) vfs.ID {
	h.t.Helper()
	var a vfs.Attr
	require.NoError(h.t, h.fs.Mkdir(h.ctx, dir, name, &vfs.SetAttr{}, &a, &vfs.WCC{}))
	return a.ID
}

func (h *harness) symlink(dir vfs.ID, name, target string) vfs.ID {
	h.t.Helper()
	var a vfs.Attr
	require.NoError(h.t, h.fs.Symlink(h.ctx, dir, name, target, &vfs.SetAttr{}, &a, &vfs.WCC{}))
	return a.ID
}

func (h *harness) rename(from vfs.ID, fromName string, to vfs.ID, toName string) error {
	return h.fs.Rename(h.ctx, from, fromName, to, toName, &vfs.WCC{}, &vfs.WCC{})
}

func (h *harness) attr(id vfs.ID) vfs.Attr {
	h.t.Helper()
	var a vfs.Attr
	require.NoError(h.t, h.fs.Attr(h.ctx, id, &a))
	return a
}

func (h *harness) lookup(dir vfs.ID, name string) (vfs.ID, error) {
	var a vfs.Attr
	err := h.fs.Lookup(h.ctx, dir, name, &a)
	return a.ID, err
}

func (h *harness) wantLookup(dir vfs.ID, name string, want vfs.ID) {
	h.t.Helper()
	got, err := h.lookup(dir, name)
	require.NoError(h.t, err)
	require.Equal(h.t, want, got)
}

func (h *harness) wantNoName(dir vfs.ID, name string) {
	h.t.Helper()
	_, err := h.lookup(dir, name)
	require.ErrorIs(h.t, err, vfs.ErrNoEnt)
}

func (h *harness) wantStale(id vfs.ID) {
	h.t.Helper()
	require.ErrorIs(h.t, h.fs.Attr(h.ctx, id, &vfs.Attr{}), vfs.ErrStale)
}

func (h *harness) wantNlink(id vfs.ID, n uint32) {
	h.t.Helper()
	require.Equal(h.t, n, h.attr(id).Nlink, "nlink")
}

func (h *harness) write(id vfs.ID, off uint64, data []byte) {
	h.t.Helper()
	var w vfs.WCC
	require.NoError(h.t, h.fs.Write(h.ctx, id, off, data, false, &w))
	require.Equal(h.t, max(w.Before.Size, off+uint64(len(data))), w.After.Size, "size after WRITE")
}

func (h *harness) truncate(id vfs.ID, size uint64) {
	h.t.Helper()
	var w vfs.WCC
	require.NoError(h.t, h.fs.SetAttr(h.ctx, id, &vfs.SetAttr{SetSize: true, Size: size}, nil, &w))
	require.Equal(h.t, size, w.After.Size)
}

// read reads n bytes and checks count, eof and attributes.
func (h *harness) read(id vfs.ID, off uint64, n int) []byte {
	h.t.Helper()
	var a vfs.Attr
	buf := make([]byte, n)
	got, eof, err := h.fs.Read(h.ctx, id, off, buf, &a)
	require.NoError(h.t, err)
	require.Equal(h.t, id, a.ID)
	want := min(uint64(n), a.Size-min(a.Size, off))
	require.Equal(h.t, want, uint64(got), "bytes read")
	require.Equal(h.t, off+want >= a.Size, eof, "eof")
	return buf[:got]
}

// readPages reads like read, by pages, and releases them.
func (h *harness) readPages(r vfs.PageReader, id vfs.ID, off uint64, n int) []byte {
	h.t.Helper()
	var a vfs.Attr
	var p vfs.Pages
	eof, err := r.ReadPages(h.ctx, id, off, n, &p, &a)
	require.NoError(h.t, err)
	data := join(&p)
	r.ReleasePages(&p)
	require.Empty(h.t, p.List)
	want := min(uint64(n), a.Size-min(a.Size, off))
	require.Equal(h.t, want, uint64(len(data)), "bytes read")
	require.Equal(h.t, off+want >= a.Size, eof, "eof")
	return data
}

// writePages writes by pages; false if the range does not suit.
func (h *harness) writePages(w vfs.PageWriter, id vfs.ID, off uint64, data []byte) bool {
	h.t.Helper()
	var p vfs.Pages
	if !w.GrabPages(id, off, len(data), &p) {
		require.Empty(h.t, p.List)
		return false
	}
	spread(&p, data)
	var wcc vfs.WCC
	require.NoError(h.t, w.WritePages(h.ctx, id, off, &p, false, &wcc))
	require.Empty(h.t, p.List)
	require.Equal(h.t, max(wcc.Before.Size, off+uint64(len(data))), wcc.After.Size)
	return true
}

func join(p *vfs.Pages) []byte {
	data := []byte{}
	for i := range p.List {
		data = append(data, p.List[i].Bytes()...)
	}
	return data
}

func spread(p *vfs.Pages, data []byte) {
	for i := range p.List {
		data = data[copy(p.List[i].Bytes(), data):]
	}
}

// list returns the names of a directory, read step entries at a time.
func (h *harness) list(dir vfs.ID, step int) []string {
	h.t.Helper()
	var names []string
	var cookie, verf uint64
	for {
		n := 0
		v, eof, err := h.fs.ReadDir(h.ctx, dir, cookie, verf, func(e *vfs.DirEntry) bool {
			if n == step {
				return false
			}
			n++
			names = append(names, e.Name)
			cookie = e.Cookie
			return true
		})
		require.NoError(h.t, err)
		verf = v
		if eof {
			return names
		}
		require.Positive(h.t, n)
	}
}

// pattern is n bytes that tell offset and seed. The period is a prime, so that
// no two chunks are alike.
func pattern(seed, n int) []byte {
	const period = 4093
	b := make([]byte, n)
	for i := range min(n, period) {
		b[i] = byte(i*7 + i>>8 + seed*31 + 1)
	}
	for done := period; done < n; done *= 2 {
		copy(b[done:], b[:done])
	}
	return b
}
