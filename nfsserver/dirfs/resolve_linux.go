package dirfs

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"

	"example.org/nfsrdma/nfsserver/vfs"
)

type pathBuf [unix.PathMax]byte

var pathPool = sync.Pool{New: func() any { return new(pathBuf) }}

// path writes the path of n from the root to the end of buf. False: it is too
// long, or n has no place.
func (fs *FS) path(n *node, buf *pathBuf) ([]byte, bool) {
	fs.table.mu.RLock()
	defer fs.table.mu.RUnlock()
	at := len(buf) - 1
	buf[at] = 0
	for n != fs.root {
		if len(n.at) == 0 {
			return nil, false
		}
		p := &n.at[0]
		if at < len(p.name)+1 {
			return nil, false
		}
		if at < len(buf)-1 {
			at--
			buf[at] = '/'
		}
		at -= len(p.name)
		copy(buf[at:], p.name)
		n = p.dir
	}
	return buf[at:], true
}

// open finds an object below the root. The caller closes h if there is no error.
// pinned says that a descriptor keeps the number of n from being used again.
func (fs *FS) open(n *node, pinned bool, h *handle) (err error) {
	err = fs.try(n, pinned, h)
	if err == nil {
		return nil
	}
	defer func() {
		if err != nil {
			h.st = unix.Statx_t{} // of whatever was found instead
		}
	}()
	if !gone(err) {
		return err
	}
	// A rename or removal of our own may stand between the kernel and the table.
	fs.moves.Lock()
	defer fs.moves.Unlock()
	err = fs.search(n, h, 0)
	if err != nil && gone(err) {
		err = vfs.ErrStale
	}
	if err == vfs.ErrStale { // so that the next call does not search again; recover finds it if it comes back
		fs.table.mu.Lock()
		fs.table.forget(n.ident)
		fs.table.mu.Unlock()
		fs.cache.drop(n)
	}
	return err
}

// try opens the newest path of n.
func (fs *FS) try(n *node, pinned bool, h *handle) error {
	if n == fs.root {
		h.fd, h.owned = fs.rootPath, false
		if err := fs.stat(h); err != nil {
			return err
		}
		if h.st.Nlink == 0 {
			return unix.ESTALE
		}
		return nil
	}
	buf := pathPool.Get().(*pathBuf)
	defer pathPool.Put(buf)
	path, ok := fs.path(n, buf)
	if !ok {
		return unix.ENAMETOOLONG
	}
	if err := fs.below(fs.rootPath, path, h); err != nil {
		return err
	}
	return fs.check(n, pinned, h)
}

// check closes h if it is not n.
func (fs *FS) check(n *node, pinned bool, h *handle) error {
	if devOf(&h.st) != n.ident.dev || h.st.Ino != n.ident.ino || !pinned && fs.identify(h) != n.ident {
		h.close()
		return errChanged
	}
	return nil
}

// maxDepth bounds how many directories are searched for one object.
const maxDepth = 4096

// search finds n when its newest path fails: names changed, or the path
// is too long for one call. moves is held.
func (fs *FS) search(n *node, h *handle, depth int) error {
	if err := fs.try(n, false, h); err == nil || !gone(err) {
		return err
	}
	if n == fs.root || depth > maxDepth {
		return unix.ESTALE
	}
	places := fs.places(n)
	for _, p := range places {
		if err := fs.searchIn(p.dir, n, p.name, h, depth); err == nil || !gone(err) {
			return err
		}
	}
	if err := fs.follow(n, h); err == nil || !gone(err) {
		return err
	}
	for _, p := range places {
		if err := fs.searchIn(p.dir, n, "", h, depth); err == nil || !gone(err) {
			return err
		}
	}
	return unix.ESTALE
}

// searchIn looks in a directory for n by a name, or by its number if the name is empty.
func (fs *FS) searchIn(dir, n *node, name string, h *handle, depth int) error {
	var d handle
	if err := fs.search(dir, &d, depth+1); err != nil {
		return err
	}
	defer d.close()
	if name == "" {
		var err error
		if name, err = fs.nameOf(d.fd, n.ident.ino); err != nil {
			return err
		}
	}
	if err := fs.child(d.fd, name, h); err != nil {
		return err
	}
	if err := fs.check(n, false, h); err != nil {
		return err
	}
	fs.table.mu.Lock()
	n.addPlace(dir, name)
	fs.table.mu.Unlock()
	return nil
}

// node finds the node of an ID, also of one that an FS before us gave out.
func (fs *FS) node(ctx context.Context, id vfs.ID) (*node, error) {
	if n := fs.table.get(id); n != nil {
		return n, nil
	}
	return fs.recover(ctx, id)
}
