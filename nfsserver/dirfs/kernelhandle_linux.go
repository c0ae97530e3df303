package dirfs

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// layout is how a file system makes file handles, if it is simple enough to make
// one again from inode number and generation:
//
//	ino(32) gen(32)   ext4
//	ino(64) gen(32)   xfs
//	gen(32) ino(64)   tmpfs
type layout struct {
	typ int32
	len uint32
	gen uint32 // offset of the generation
	ino uint32
}

var noLayout layout

// layoutOf finds the layout from the handle of an object whose number is known.
func layoutOf(k *kernelHandle, ino uint64) layout {
	for _, l := range []layout{{len: 8, gen: 4}, {len: 12, gen: 8}, {len: 12, ino: 4}} {
		l.typ = k.typ
		if _, ok := l.generation(k, ino); ok {
			return l
		}
	}
	return noLayout
}

// generation takes the generation out of a handle of this layout.
func (l layout) generation(k *kernelHandle, ino uint64) (uint32, bool) {
	if l == noLayout || k.typ != l.typ || k.n != l.len {
		return 0, false
	}
	b := k.bytes()
	have := uint64(binary.NativeEndian.Uint32(b[l.ino:]))
	if l.len == 12 {
		have = binary.NativeEndian.Uint64(b[l.ino:])
	}
	return binary.NativeEndian.Uint32(b[l.gen:]), have == ino
}

// handle makes a handle.
func (l layout) handle(ino uint64, gen uint32) unix.FileHandle {
	b := make([]byte, l.len)
	if l.len == 12 {
		binary.NativeEndian.PutUint64(b[l.ino:], ino)
	} else {
		binary.NativeEndian.PutUint32(b[l.ino:], uint32(ino))
	}
	binary.NativeEndian.PutUint32(b[l.gen:], gen)
	return unix.NewFileHandle(l.typ, b)
}

// openHandle opens an object of the file system by number and generation,
// wherever it is: the caller must find out whether that is below the root.
func (fs *FS) openHandle(ino uint64, gen uint32) (int, error) {
	if fs.layout == noLayout || fs.noByHandle || fs.rootDir < 0 {
		return -1, unix.EOPNOTSUPP
	}
	return unix.OpenByHandleAt(fs.rootDir, fs.layout.handle(ino, gen), openPath)
}
