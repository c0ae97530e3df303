package nfsclient

import (
	"io/fs"
	"path"
	"time"

	"example.org/nfsrdma/internal/nfs3"
)

// info is fs.FileInfo and fs.DirEntry of an object; Sys gives its *Fattr.
type info struct {
	name string
	attr Fattr
}

func newInfo(name string, a *Fattr) *info { return &info{path.Base(name), *a} }

func (i *info) Name() string      { return i.name }
func (i *info) Size() int64       { return int64(i.attr.Size) }
func (i *info) Mode() fs.FileMode { return FileMode(&i.attr) }
func (i *info) ModTime() time.Time {
	return time.Unix(int64(i.attr.Mtime.Sec), int64(i.attr.Mtime.Nsec))
}
func (i *info) IsDir() bool                { return i.attr.Type == nfs3.NF3DIR }
func (i *info) Sys() any                   { return &i.attr }
func (i *info) Type() fs.FileMode          { return i.Mode().Type() }
func (i *info) Info() (fs.FileInfo, error) { return i, nil }
func (i *info) String() string             { return fs.FormatFileInfo(i) }

// FileMode gives type and permissions of attributes as io/fs has them.
func FileMode(a *Fattr) fs.FileMode {
	m := fs.FileMode(a.Mode & 0o777)
	for _, b := range modeBits {
		if a.Mode&b.nfs != 0 {
			m |= b.fs
		}
	}
	switch a.Type {
	case nfs3.NF3DIR:
		m |= fs.ModeDir
	case nfs3.NF3LNK:
		m |= fs.ModeSymlink
	case nfs3.NF3BLK:
		m |= fs.ModeDevice
	case nfs3.NF3CHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case nfs3.NF3SOCK:
		m |= fs.ModeSocket
	case nfs3.NF3FIFO:
		m |= fs.ModeNamedPipe
	}
	return m
}

var modeBits = [...]struct {
	nfs uint32
	fs  fs.FileMode
}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}

// setMode gives attributes that set permissions only.
func setMode(perm fs.FileMode) Sattr {
	mode := uint32(perm.Perm())
	for _, b := range modeBits {
		if perm&b.fs != 0 {
			mode |= b.nfs
		}
	}
	return Sattr{SetMode: true, Mode: mode}
}
