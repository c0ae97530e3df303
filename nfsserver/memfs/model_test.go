package memfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"example.org/nfsrdma/nfsserver/vfs"
)

// modelNode is an object of the reference model: a tree of maps and byte slices.
type modelNode struct {
	id        vfs.ID
	dir       bool
	names     map[string]*modelNode
	parent    *modelNode
	data      []byte
	committed []byte // what a crash leaves
	nlink     uint32
}

type lentPages struct {
	pages vfs.Pages
	want  []byte
}

// model makes each call on the file system and on the reference.
type model struct {
	fs    *FS
	ctx   context.Context
	root  *modelNode
	nodes []*modelNode // that have a name
	lent  []lentPages
}

const modelCapacity = 8 * ChunkSize

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := New(Options{TrackUnstable: rapid.Bool().Draw(t, "track"), Capacity: modelCapacity, MaxFiles: 15, MaxLink: 3})
		root := &modelNode{id: fs.Root(), dir: true, names: map[string]*modelNode{}, nlink: 2}
		root.parent = root
		m := &model{fs: fs, ctx: t.Context(), root: root, nodes: []*modelNode{root}}
		t.Repeat(map[string]func(*rapid.T){
			"":         m.check,
			"create":   m.create,
			"mkdir":    m.mkdir,
			"link":     m.link,
			"remove":   m.remove,
			"rename":   m.rename,
			"write":    m.write,
			"pages":    m.writePages,
			"truncate": m.truncate,
			"read":     m.read,
			"lend":     m.lend,
			"release":  m.release,
			"commit":   m.commit,
			"crash":    m.crash,
			"readdir":  m.readDir,
		})
		for _, n := range m.nodes {
			if !n.dir {
				m.wantData(t, n)
			}
		}
		for len(m.lent) > 0 {
			m.release(t)
		}
		require.Zero(t, fs.Pinned())
		require.NoError(t, fs.CheckConsistent())
	})
}

func (m *model) pick(t *rapid.T, dir bool) *modelNode {
	var of []*modelNode
	for _, n := range m.nodes {
		if n.dir == dir {
			of = append(of, n)
		}
	}
	if len(of) == 0 {
		t.Skip("none yet")
	}
	return of[rapid.IntRange(0, len(of)-1).Draw(t, "object")]
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name")
}

// drawRange is a range with ends at, before or after the ends of chunks.
func drawRange(t *rapid.T) (off uint64, n int) {
	near := rapid.SampledFrom([]int{0, 1, 100, 4095, 4096, 4097, 20000, 65535})
	off = uint64(rapid.IntRange(0, 3).Draw(t, "chunk")*ChunkSize + near.Draw(t, "start"))
	n = rapid.IntRange(0, 2).Draw(t, "chunks")*ChunkSize + near.Draw(t, "rest")
	return off, max(n, 1)
}

func drawData(t *rapid.T, n int) []byte {
	b := filled(n, rapid.Byte().Draw(t, "value"))
	b[0], b[n-1] = 1, 2
	return b
}

func (m *model) add(dir *modelNode, name string, n *modelNode) {
	dir.names[name] = n
	if n.dir {
		n.parent = dir
		dir.nlink++
	}
	if !slices.Contains(m.nodes, n) {
		m.nodes = append(m.nodes, n)
	}
}

func (m *model) drop(dir *modelNode, name string) {
	n := dir.names[name]
	delete(dir.names, name)
	n.nlink--
	if n.dir {
		dir.nlink--
		n.nlink = 0
	}
	if n.nlink == 0 {
		m.nodes = slices.DeleteFunc(m.nodes, func(o *modelNode) bool { return o == n })
	}
}

func (m *model) create(t *rapid.T) {
	dir, name := m.pick(t, true), drawName(t)
	var a vfs.Attr
	err := m.fs.Create(m.ctx, dir.id, name, vfs.Guarded, 0, nil, &a, nil)
	m.made(t, dir, name, err, &modelNode{id: a.ID, nlink: 1})
}

func (m *model) mkdir(t *rapid.T) {
	dir, name := m.pick(t, true), drawName(t)
	var a vfs.Attr
	err := m.fs.Mkdir(m.ctx, dir.id, name, nil, &a, nil)
	m.made(t, dir, name, err, &modelNode{id: a.ID, nlink: 2, dir: true, names: map[string]*modelNode{}})
}

func (m *model) made(t *rapid.T, dir *modelNode, name string, err error, n *modelNode) {
	switch {
	case dir.names[name] != nil:
		require.ErrorIs(t, err, vfs.ErrExist)
	case len(m.nodes) == 15:
		require.ErrorIs(t, err, vfs.ErrNoSpace)
	default:
		require.NoError(t, err)
		m.add(dir, name, n)
	}
}

func (m *model) link(t *rapid.T) {
	f, dir, name := m.pick(t, false), m.pick(t, true), drawName(t)
	err := m.fs.Link(m.ctx, f.id, dir.id, name, nil, nil)
	switch {
	case dir.names[name] != nil:
		require.ErrorIs(t, err, vfs.ErrExist)
	case f.nlink == 3:
		require.ErrorIs(t, err, vfs.ErrMLink)
	default:
		require.NoError(t, err)
		f.nlink++
		m.add(dir, name, f)
	}
}

func (m *model) remove(t *rapid.T) {
	dir, name := m.pick(t, true), drawName(t)
	n := dir.names[name]
	remove, rmdir := vfs.ErrNoEnt, vfs.ErrNoEnt
	switch {
	case n == nil:
	case !n.dir:
		remove, rmdir = nil, vfs.ErrNotDir
	case len(n.names) > 0:
		remove, rmdir = vfs.ErrIsDir, vfs.ErrNotEmpty
	default:
		remove, rmdir = vfs.ErrIsDir, nil
	}
	// The call that fails goes first.
	calls := []func(){
		func() { require.ErrorIs(t, m.fs.Remove(m.ctx, dir.id, name, nil), remove) },
		func() { require.ErrorIs(t, m.fs.Rmdir(m.ctx, dir.id, name, nil), rmdir) },
	}
	if remove == nil {
		slices.Reverse(calls)
	}
	for _, call := range calls {
		call()
	}
	if remove == nil || rmdir == nil {
		m.drop(dir, name)
		if n.nlink == 0 {
			require.ErrorIs(t, m.fs.Attr(m.ctx, n.id, nil), vfs.ErrStale)
		}
	}
}

func (m *model) rename(t *rapid.T) {
	from, fromName := m.pick(t, true), drawName(t)
	to, toName := m.pick(t, true), drawName(t)
	err := m.fs.Rename(m.ctx, from.id, fromName, to.id, toName, nil, nil)
	n, old := from.names[fromName], to.names[toName]
	below := false
	for d := to; ; d = d.parent {
		below = below || d == n
		if d == m.root {
			break
		}
	}
	switch {
	case n == nil:
		require.ErrorIs(t, err, vfs.ErrNoEnt)
	case below:
		require.ErrorIs(t, err, vfs.ErrInval)
	case n == old:
		require.NoError(t, err)
	case old != nil && old.dir && !n.dir:
		require.ErrorIs(t, err, vfs.ErrIsDir)
	case old != nil && !old.dir && n.dir:
		require.ErrorIs(t, err, vfs.ErrNotDir)
	case old != nil && len(old.names) > 0:
		require.ErrorIs(t, err, vfs.ErrNotEmpty)
	default:
		require.NoError(t, err)
		if old != nil {
			m.drop(to, toName)
		}
		delete(from.names, fromName)
		if n.dir {
			from.nlink--
		}
		m.add(to, toName, n)
	}
}

// stored puts data into the model, if there was space.
func (m *model) stored(t *rapid.T, f *modelNode, off uint64, data []byte, stable bool, err error) {
	if errors.Is(err, vfs.ErrNoSpace) {
		s, _ := m.fs.Stat(m.ctx)
		require.Less(t, s.FreeBytes, uint64(len(data)+2*ChunkSize), "no space, but there is")
		return
	}
	require.NoError(t, err)
	end := int(off) + len(data)
	next := make([]byte, max(len(f.data), end))
	copy(next, f.data)
	copy(next[off:], data)
	f.data = next
	if stable {
		f.committed = next
	}
}

func (m *model) write(t *rapid.T) {
	f := m.pick(t, false)
	off, n := drawRange(t)
	data, stable := drawData(t, n), rapid.Bool().Draw(t, "stable")
	var w vfs.WCC
	err := m.fs.Write(m.ctx, f.id, off, data, stable, &w)
	m.stored(t, f, off, data, stable, err)
	require.EqualValues(t, len(f.data), w.After.Size)
}

func (m *model) writePages(t *rapid.T) {
	f := m.pick(t, false)
	off, n := drawRange(t)
	off -= off % ChunkSize
	data, stable := drawData(t, n), rapid.Bool().Draw(t, "stable")
	var p vfs.Pages
	ok := m.fs.GrabPages(f.id, off, n, &p)
	require.Equal(t, n%ChunkSize == 0 || int(off)+n >= len(f.data), ok)
	if !ok {
		return
	}
	require.Equal(t, n, p.Len())
	rest := data
	for i := range p.List {
		rest = rest[copy(p.List[i].Bytes(), rest):]
	}
	switch rapid.IntRange(0, 3).Draw(t, "between") {
	case 0:
		m.truncate(t)
	case 1:
		m.write(t)
	}
	m.stored(t, f, off, data, stable, m.fs.WritePages(m.ctx, f.id, off, &p, stable, nil))
}

func (m *model) truncate(t *rapid.T) {
	f := m.pick(t, false)
	off, n := drawRange(t)
	size := int(off) + n - 1
	require.NoError(t, m.fs.SetAttr(m.ctx, f.id, &vfs.SetAttr{SetSize: true, Size: uint64(size)}, nil, nil))
	next := make([]byte, size)
	copy(next, f.data)
	f.data, f.committed = next, next
}

func (m *model) read(t *rapid.T) {
	f := m.pick(t, false)
	off, n := drawRange(t)
	buf := make([]byte, n)
	got, eof, err := m.fs.Read(m.ctx, f.id, off, buf, nil)
	require.NoError(t, err)
	require.True(t, bytes.Equal(f.slice(off, n), buf[:got]))
	require.Equal(t, int(off)+n >= len(f.data), eof)
}

func (n *modelNode) slice(off uint64, length int) []byte {
	from := min(int(off), len(n.data))
	return n.data[from:min(from+length, len(n.data))]
}

func (m *model) lend(t *rapid.T) {
	f := m.pick(t, false)
	off, n := drawRange(t)
	l := lentPages{want: f.slice(off, n)}
	eof, err := m.fs.ReadPages(m.ctx, f.id, off, n, &l.pages, nil)
	require.NoError(t, err)
	require.Equal(t, int(off)+n >= len(f.data), eof)
	m.lent = append(m.lent, l)
}

func (l *lentPages) check(t *rapid.T) {
	require.Equal(t, len(l.want), l.pages.Len())
	rest := l.want
	for i := range l.pages.List {
		b := l.pages.List[i].Bytes()
		require.True(t, bytes.Equal(rest[:len(b)], b), "a lent page changed")
		rest = rest[len(b):]
	}
}

func (m *model) release(t *rapid.T) {
	if len(m.lent) == 0 {
		t.Skip("none lent")
	}
	k := rapid.IntRange(0, len(m.lent)-1).Draw(t, "lent")
	m.lent[k].check(t)
	m.fs.ReleasePages(&m.lent[k].pages)
	m.lent = slices.Delete(m.lent, k, k+1)
}

func (m *model) commit(t *rapid.T) {
	f := m.pick(t, false)
	require.NoError(t, m.fs.Commit(m.ctx, f.id, 0, 0, nil))
	f.committed = f.data
}

func (m *model) crash(t *rapid.T) {
	verf := m.fs.WriteVerf()
	m.fs.Crash()
	require.NotEqual(t, verf, m.fs.WriteVerf())
	if !m.fs.opt.TrackUnstable {
		return
	}
	for _, n := range m.nodes {
		n.data = n.committed
	}
}

func (m *model) readDir(t *rapid.T) {
	dir := m.pick(t, true)
	want := map[string]vfs.ID{".": dir.id, "..": dir.parent.id}
	for name, n := range dir.names {
		want[name] = n.id
	}
	got := make(map[string]vfs.ID)
	step := rapid.IntRange(1, 3).Draw(t, "step")
	var cookie, verf uint64
	for {
		n := 0
		v, eof, err := m.fs.ReadDir(m.ctx, dir.id, cookie, verf, func(e *vfs.DirEntry) bool {
			if n++; n > step {
				return false
			}
			require.NotContains(t, got, e.Name)
			got[e.Name] = e.ID
			cookie = e.Cookie
			return true
		})
		require.NoError(t, err)
		verf = v
		if eof {
			break
		}
	}
	require.Equal(t, want, got)
}

func (m *model) wantData(t *rapid.T, n *modelNode) {
	buf := make([]byte, len(n.data)+1)
	got, eof, err := m.fs.Read(m.ctx, n.id, 0, buf, nil)
	require.NoError(t, err)
	require.True(t, eof)
	require.True(t, bytes.Equal(n.data, buf[:got]), "data of %v", n.id)
}

// check compares all names and attributes, after each call.
func (m *model) check(t *rapid.T) {
	require.NoError(t, m.fs.CheckConsistent())
	for k := range m.lent {
		m.lent[k].check(t)
	}
	for _, n := range m.nodes {
		var a vfs.Attr
		require.NoError(t, m.fs.Attr(m.ctx, n.id, &a))
		require.Equal(t, n.nlink, a.Nlink, fmt.Sprint(n.id))
		if !n.dir {
			require.EqualValues(t, len(n.data), a.Size)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			require.NoError(t, m.fs.Lookup(m.ctx, n.id, name, &a))
			require.Equal(t, n.names[name].id, a.ID)
		}
	}
}
