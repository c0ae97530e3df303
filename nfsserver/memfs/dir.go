package memfs

import (
	"context"
	"slices"
	"strings"

	"example.org/nfsrdma/nfsserver/vfs"
)

// Cookies of "." and ".."; those of names follow.
const (
	cookieSelf   = 1
	cookieParent = 2
)

const direntSize = 32 // bytes a name counts for in the size of a directory

// A directory keeps its entries in the order of their cookies, which only grow
// and stay with an entry for its life. So a cookie never becomes invalid, and
// the verifier, the generation of the directory, never changes.
type directory struct {
	parent *inode
	names  map[string]*dirent
	order  []*dirent // some removed
	last   uint64    // cookie
}

type dirent struct {
	name   string
	in     *inode // nil when removed
	cookie uint64
}

func newDirectory() *directory {
	return &directory{names: make(map[string]*dirent), last: cookieParent}
}

func (d *directory) add(name string, in *inode) {
	d.last++
	// The name may lie in a receive buffer.
	e := &dirent{name: strings.Clone(name), in: in, cookie: d.last}
	d.names[e.name] = e
	d.order = append(d.order, e)
}

func (d *directory) remove(e *dirent) {
	delete(d.names, e.name)
	e.in = nil
	if len(d.order) > 32 && len(d.order) > 2*len(d.names) {
		d.order = slices.DeleteFunc(d.order, func(e *dirent) bool { return e.in == nil })
	}
}

// after is the index of the first entry, removed or not, after cookie.
func (d *directory) after(cookie uint64) int {
	i, _ := slices.BinarySearchFunc(d.order, cookie, func(e *dirent, cookie uint64) int {
		if e.cookie <= cookie {
			return -1
		}
		return 1
	})
	return i
}

// checkName checks a name to look up.
func checkName(name string) error {
	switch {
	case name == "":
		return vfs.ErrInval
	case len(name) > MaxName:
		return vfs.ErrNameTooLong
	case strings.ContainsAny(name, "/\x00"):
		return vfs.ErrInval
	}
	return nil
}

func isDot(name string) bool { return name == "." || name == ".." }

// findDir finds a directory. tree is held.
func (fs *FS) findDir(id vfs.ID) (*inode, error) {
	in := fs.inodes.get(id)
	switch {
	case in == nil:
		return nil, vfs.ErrStale
	case in.dir == nil:
		return nil, vfs.ErrNotDir
	}
	return in, nil
}

// Lookup finds name in dir and fills a.
func (fs *FS) Lookup(_ context.Context, dir vfs.ID, name string, a *vfs.Attr) error {
	fs.tree.RLock()
	defer fs.tree.RUnlock()
	d, err := fs.findDir(dir)
	if err != nil {
		return err
	}
	in, err := d.lookup(name)
	if err != nil {
		return err
	}
	in.rlockAttr(a)
	return nil
}

func (in *inode) lookup(name string) (*inode, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	switch name {
	case ".":
		return in, nil
	case "..":
		return in.dir.parent, nil
	}
	e := in.dir.names[name]
	if e == nil {
		return nil, vfs.ErrNoEnt
	}
	return e.in, nil
}

// ReadDir lists dir in the order in which names were added.
func (fs *FS) ReadDir(_ context.Context, dir vfs.ID, cookie, verf uint64, emit func(*vfs.DirEntry) bool) (newVerf uint64, eof bool, err error) {
	fs.tree.RLock()
	defer fs.tree.RUnlock()
	in, err := fs.findDir(dir)
	if err != nil {
		return 0, false, err
	}
	d := in.dir
	newVerf = in.id.Gen
	if verf != 0 && verf != newVerf || cookie > d.last {
		return 0, false, vfs.ErrBadCookie
	}
	in.mu.RLock()
	fs.accessed(in)
	in.mu.RUnlock()

	if cookie < cookieSelf && !emit(&vfs.DirEntry{Name: ".", ID: in.id, Cookie: cookieSelf}) {
		return newVerf, false, nil
	}
	if cookie < cookieParent && !emit(&vfs.DirEntry{Name: "..", ID: d.parent.id, Cookie: cookieParent}) {
		return newVerf, false, nil
	}
	var out vfs.DirEntry
	for _, e := range d.order[d.after(cookie):] {
		if e.in == nil {
			continue
		}
		out = vfs.DirEntry{Name: e.name, ID: e.in.id, Cookie: e.cookie}
		if !emit(&out) {
			return newVerf, false, nil
		}
	}
	return newVerf, true, nil
}
