package dirfs

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// A pair is one object in both file systems; some are gone.
type pair struct{ dir, mem vfs.ID }

// twins makes each call on a dirfs and a memfs, and wants the same of both: errors, attributes, WCC,
// names and data. Times, directory sizes and space differ.
type twins struct {
	ctx  context.Context
	dir  *FS
	mem  *memfs.FS
	objs []pair
	of   map[vfs.ID]vfs.ID // dirfs to memfs
}

func TestModel(t *testing.T) {
	needRoot(t) // for owners
	for _, name := range []string{"all", "no openat2", "weak"} {
		without := ways[name]
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkTwins(t, without) })
		})
	}
}

func checkTwins(t *rapid.T, without lacks) {
	root, err := os.MkdirTemp("", "dirfs")
	require.NoError(t, err)
	defer os.RemoveAll(root)
	fs, err := newFS(root, Options{AsyncMeta: true, MaxOpen: 2, Devices: true}, without)
	require.NoError(t, err)
	defer fs.Close()
	fs.syncFD = func(int) error { return nil }
	mem := memfs.New(memfs.Options{MaxFileSize: fs.Info().MaxFileSize, RootMode: 0o700})
	m := &twins{ctx: context.Background(), dir: fs, mem: mem, of: map[vfs.ID]vfs.ID{}}
	m.add(fs.Root(), mem.Root())
	t.Repeat(map[string]func(*rapid.T){
		"":        m.check,
		"create":  m.create,
		"mkdir":   m.mkdir,
		"symlink": m.symlink,
		"mknod":   m.mknod,
		"link":    m.link,
		"remove":  m.remove,
		"rename":  m.rename,
		"setattr": m.setAttr,
		"write":   m.write,
		"read":    m.read,
		"lookup":  m.lookup,
	})
}

func (m *twins) add(dir, mem vfs.ID) {
	if _, ok := m.of[dir]; !ok {
		m.of[dir] = mem
		m.objs = append(m.objs, pair{dir, mem})
	}
}

func (m *twins) pick(t *rapid.T, label string) pair { return rapid.SampledFrom(m.objs).Draw(t, label) }

func pickName(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "\xff", "a", "b", "c", ".", "..", "", "a/b", strings.Repeat("n", 255), strings.Repeat("n", 256)}).Draw(t, label)
}

func pickSet(t *rapid.T) *vfs.SetAttr {
	s := &vfs.SetAttr{
		SetMode: rapid.Bool().Draw(t, "set mode"), SetUID: rapid.Bool().Draw(t, "set uid"),
		SetGID: rapid.Bool().Draw(t, "set gid"), SetSize: rapid.Bool().Draw(t, "set size"),
		MtimeHow: rapid.SampledFrom([]vfs.TimeHow{vfs.TimeKeep, vfs.TimeServer, vfs.TimeClient}).Draw(t, "mtime"),
	}
	if s.SetMode {
		s.Mode = rapid.SampledFrom([]uint32{0, 0o644, 0o777}).Draw(t, "mode")
	}
	if s.SetUID {
		s.UID = 5
	}
	if s.SetGID {
		s.GID = 6
	}
	if s.SetSize {
		s.Size = rapid.SampledFrom([]uint64{0, 1, 5000, 1 << 63}).Draw(t, "size")
	}
	if s.MtimeHow == vfs.TimeClient {
		s.Mtime = vfs.Time{Sec: 7, Nsec: rapid.SampledFrom([]uint32{0, 8, nsPerSec}).Draw(t, "nsec")}
	}
	return s
}

var sentinels = []error{vfs.ErrPerm, vfs.ErrNoEnt, vfs.ErrIO, vfs.ErrAccess, vfs.ErrExist, vfs.ErrXDev, vfs.ErrNoDev, vfs.ErrNotDir,
	vfs.ErrIsDir, vfs.ErrInval, vfs.ErrFBig, vfs.ErrNoSpace, vfs.ErrReadOnly, vfs.ErrMLink, vfs.ErrNameTooLong, vfs.ErrNotEmpty,
	vfs.ErrDQuot, vfs.ErrStale, vfs.ErrNotSync, vfs.ErrBadCookie, vfs.ErrNotSupp, vfs.ErrBadType}

func (m *twins) sameErr(t *rapid.T, dir, mem error) {
	t.Helper()
	for _, e := range sentinels {
		require.Equal(t, errors.Is(mem, e), errors.Is(dir, e), "memfs says %v, dirfs %v", mem, dir)
	}
	require.Equal(t, mem == nil, dir == nil, "memfs says %v, dirfs %v", mem, dir)
}

// sameAttr compares what both must know, and notes a new pair.
func (m *twins) sameAttr(t *rapid.T, dir, mem vfs.Attr) {
	t.Helper()
	if mem.Type != 0 && dir.Type != 0 {
		m.add(dir.ID, mem.ID)
	}
	require.Equal(t, mem.ID, m.of[dir.ID], "object")
	for _, a := range []*vfs.Attr{&dir, &mem} {
		a.ID, a.Used, a.Atime, a.Ctime = vfs.ID{}, 0, vfs.Time{}, vfs.Time{}
		if a.Mtime.Sec != 7 {
			a.Mtime = vfs.Time{}
		}
		if a.Type == vfs.Directory {
			a.Size = 0
			if onBtrfs() {
				a.Nlink = 0
			}
		}
	}
	require.Equal(t, mem, dir)
}

func (m *twins) sameWCC(t *rapid.T, dir, mem vfs.WCC) {
	t.Helper()
	m.sameAttr(t, dir.Before, mem.Before)
	m.sameAttr(t, dir.After, mem.After)
	if fineTimes() {
		require.Equal(t, mem.Before == mem.After, dir.Before == dir.After, "whether it changed")
	}
}

// made compares calls that make an object; f makes it in one of the two.
func (m *twins) made(t *rapid.T, f func(fs vfs.FS, pick func(pair) vfs.ID, a *vfs.Attr, w *vfs.WCC) error) {
	t.Helper()
	var a, b vfs.Attr
	var v, w vfs.WCC
	err := f(m.dir, func(p pair) vfs.ID { return p.dir }, &a, &v)
	err2 := f(m.mem, func(p pair) vfs.ID { return p.mem }, &b, &w)
	m.sameErr(t, err, err2)
	if err2 == nil {
		m.sameAttr(t, a, b)
	}
	if v.Before.Type != 0 || w.Before.Type != 0 {
		m.sameWCC(t, v, w)
	}
}

func (m *twins) create(t *rapid.T) {
	d, name, s := m.pick(t, "dir"), pickName(t, "name"), pickSet(t)
	mode := rapid.SampledFrom([]vfs.CreateMode{vfs.Unchecked, vfs.Guarded}).Draw(t, "how")
	m.made(t, func(fs vfs.FS, id func(pair) vfs.ID, a *vfs.Attr, w *vfs.WCC) error {
		return fs.Create(m.ctx, id(d), name, mode, 0, s, a, w)
	})
}

func (m *twins) mkdir(t *rapid.T) {
	d, name, s := m.pick(t, "dir"), pickName(t, "name"), pickSet(t)
	m.made(t, func(fs vfs.FS, id func(pair) vfs.ID, a *vfs.Attr, w *vfs.WCC) error {
		return fs.Mkdir(m.ctx, id(d), name, s, a, w)
	})
}

func (m *twins) symlink(t *rapid.T) {
	d, name, s := m.pick(t, "dir"), pickName(t, "name"), pickSet(t)
	s.SetMode, s.Mode = false, 0 // a link has none here
	target := rapid.SampledFrom([]string{"a", "/etc", "../..", "", "\x00", strings.Repeat("t", 4097)}).Draw(t, "target")
	m.made(t, func(fs vfs.FS, id func(pair) vfs.ID, a *vfs.Attr, w *vfs.WCC) error {
		return fs.Symlink(m.ctx, id(d), name, target, s, a, w)
	})
}

func (m *twins) mknod(t *rapid.T) {
	if !mayMknod() {
		t.Skip("no devices")
	}
	d, name, s := m.pick(t, "dir"), pickName(t, "name"), pickSet(t)
	spec := vfs.MknodSpec{Type: rapid.SampledFrom([]vfs.Type{vfs.FIFO, vfs.Socket, vfs.Char, vfs.Block}).Draw(t, "type"), RdevMajor: 1, RdevMinor: 3}
	m.made(t, func(fs vfs.FS, id func(pair) vfs.ID, a *vfs.Attr, w *vfs.WCC) error {
		return fs.Mknod(m.ctx, id(d), name, spec, s, a, w)
	})
}

func (m *twins) link(t *rapid.T) {
	f, d, name := m.pick(t, "object"), m.pick(t, "dir"), pickName(t, "name")
	m.made(t, func(fs vfs.FS, id func(pair) vfs.ID, a *vfs.Attr, w *vfs.WCC) error {
		return fs.Link(m.ctx, id(f), id(d), name, a, w)
	})
}

func (m *twins) lookup(t *rapid.T) {
	d, name := m.pick(t, "dir"), pickName(t, "name")
	m.made(t, func(fs vfs.FS, id func(pair) vfs.ID, a *vfs.Attr, _ *vfs.WCC) error {
		return fs.Lookup(m.ctx, id(d), name, a)
	})
}

func (m *twins) remove(t *rapid.T) {
	d, name, rmdir := m.pick(t, "dir"), pickName(t, "name"), rapid.Bool().Draw(t, "rmdir")
	var v, w vfs.WCC
	call := func(fs vfs.FS, id vfs.ID, w *vfs.WCC) error {
		if rmdir {
			return fs.Rmdir(m.ctx, id, name, w)
		}
		return fs.Remove(m.ctx, id, name, w)
	}
	m.sameErr(t, call(m.dir, d.dir, &v), call(m.mem, d.mem, &w))
	m.sameWCC(t, v, w)
}

func (m *twins) rename(t *rapid.T) {
	from, fromName := m.pick(t, "from"), pickName(t, "from name")
	to, toName := m.pick(t, "to"), pickName(t, "to name")
	var v1, v2, w1, w2 vfs.WCC
	err := m.dir.Rename(m.ctx, from.dir, fromName, to.dir, toName, &v1, &v2)
	err2 := m.mem.Rename(m.ctx, from.mem, fromName, to.mem, toName, &w1, &w2)
	m.sameErr(t, err, err2)
	m.sameWCC(t, v1, w1)
	m.sameWCC(t, v2, w2)
}

func (m *twins) setAttr(t *rapid.T) {
	p, s := m.pick(t, "object"), pickSet(t)
	var a vfs.Attr
	if m.mem.Attr(m.ctx, p.mem, &a) == nil && a.Type == vfs.Symlink {
		s.SetMode, s.Mode = false, 0
	}
	var v, w vfs.WCC
	m.sameErr(t, m.dir.SetAttr(m.ctx, p.dir, s, nil, &v), m.mem.SetAttr(m.ctx, p.mem, s, nil, &w))
	m.sameWCC(t, v, w)
}

func (m *twins) write(t *rapid.T) {
	p := m.pick(t, "object")
	off := rapid.SampledFrom([]uint64{0, 1, 4095, 100000, 1 << 62, 1 << 63, 1<<64 - 1}).Draw(t, "offset")
	data := slices.Repeat([]byte{rapid.Byte().Draw(t, "value")}, rapid.SampledFrom([]int{0, 1, 5000}).Draw(t, "length"))
	if off == 1<<62 && off < m.dir.Info().MaxFileSize {
		off = 1 << 20
	}
	var v, w vfs.WCC
	m.sameErr(t, m.dir.Write(m.ctx, p.dir, off, data, false, &v), m.mem.Write(m.ctx, p.mem, off, data, false, &w))
	m.sameWCC(t, v, w)
	if rapid.Bool().Draw(t, "commit") {
		m.sameErr(t, m.dir.Commit(m.ctx, p.dir, off, uint64(len(data)), &v), m.mem.Commit(m.ctx, p.mem, off, uint64(len(data)), &w))
		m.sameWCC(t, v, w)
	}
}

func (m *twins) read(t *rapid.T) {
	p := m.pick(t, "object")
	off := rapid.SampledFrom([]uint64{0, 1, 4096, 100000, 1 << 63, 1<<64 - 1}).Draw(t, "offset")
	x, y := make([]byte, 10000), make([]byte, 10000)
	var a, b vfs.Attr
	n, eof, err := m.dir.Read(m.ctx, p.dir, off, x, &a)
	n2, eof2, err2 := m.mem.Read(m.ctx, p.mem, off, y, &b)
	m.sameErr(t, err, err2)
	require.Equal(t, y[:n2], x[:n])
	require.Equal(t, eof2, eof)
	m.sameAttr(t, a, b)
}

// check compares all objects, those that are gone too, after each call.
func (m *twins) check(t *rapid.T) {
	for _, p := range m.objs {
		var a, b vfs.Attr
		err, err2 := m.dir.Attr(m.ctx, p.dir, &a), m.mem.Attr(m.ctx, p.mem, &b)
		m.sameErr(t, err, err2)
		if err2 != nil {
			continue
		}
		m.sameAttr(t, a, b)
		switch b.Type {
		case vfs.Directory:
			require.Equal(t, m.list(t, m.mem, p.mem, nil), m.list(t, m.dir, p.dir, m.of))
		case vfs.Symlink:
			x, err := m.dir.ReadLink(m.ctx, p.dir)
			require.NoError(t, err)
			y, err := m.mem.ReadLink(m.ctx, p.mem)
			require.NoError(t, err)
			require.Equal(t, y, x)
		}
	}
	require.LessOrEqual(t, m.dir.cache.len(), 2)
}

// list gives names and objects of a directory, read three at a time.
func (m *twins) list(t *rapid.T, fs vfs.FS, id vfs.ID, of map[vfs.ID]vfs.ID) map[string]vfs.ID {
	got := make(map[string]vfs.ID)
	var cookie, verf uint64
	for {
		left := 3
		v, eof, err := fs.ReadDir(m.ctx, id, cookie, verf, func(e *vfs.DirEntry) bool {
			if left--; left < 0 {
				return false
			}
			require.NotContains(t, got, e.Name)
			got[e.Name] = e.ID
			cookie = e.Cookie
			return true
		})
		require.NoError(t, err)
		if verf = v; eof {
			break
		}
	}
	if of != nil {
		for _, name := range slices.Collect(maps.Keys(got)) {
			got[name] = of[got[name]]
		}
	}
	return got
}
