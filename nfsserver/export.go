package nfsserver

import (
	"context"
	"encoding/binary"
	"strings"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

// export is an Export in service.
type export struct {
	Export
	pages  vfs.PageReader // nil: FS lends nothing
	grab   vfs.PageWriter
	verf   func() uint64 // nil: the file system never forgets
	ro     bool
	info   vfs.Info
	maxLen uint32 // of a name
}

func newExport(e *Export) *export {
	x := &export{Export: *e, info: e.FS.Info()}
	x.pages, _ = e.FS.(vfs.PageReader)
	x.grab, _ = e.FS.(vfs.PageWriter)
	if v, ok := e.FS.(vfs.Verifier); ok {
		x.verf = v.WriteVerf
	}
	x.ro = e.ReadOnly || x.info.ReadOnly
	x.maxLen = x.info.MaxName
	if x.maxLen == 0 || x.maxLen > 255 {
		x.maxLen = 255
	}
	return x
}

// A file handle is
//
//	magic(32) | fsid(32) | ino(64) | gen(64)
const (
	fhMagic = 0x4e465301
	fhLen   = 24
)

func (e *export) handle(id vfs.ID) nfs3.FH {
	var b [fhLen]byte
	binary.BigEndian.PutUint32(b[0:], fhMagic)
	binary.BigEndian.PutUint32(b[4:], e.FSID)
	binary.BigEndian.PutUint64(b[8:], id.Ino)
	binary.BigEndian.PutUint64(b[16:], id.Gen)
	fh, _ := nfs3.MakeFH(b[:])
	return fh
}

// resolve finds what a handle names, and squashes the caller as its export says. The file system tells whether the
// object still exists.
func (t *thread) resolve(fh *nfs3.FH) (*export, vfs.ID, nfs3.Status) {
	e, id, st := t.srv.decode(fh)
	if st == nfs3.NFS3_OK {
		t.cred.squash(e)
	}
	return e, id, st
}

func (s *Server) decode(fh *nfs3.FH) (*export, vfs.ID, nfs3.Status) {
	b := fh.Bytes()
	if len(b) != fhLen || binary.BigEndian.Uint32(b) != fhMagic {
		return nil, vfs.ID{}, nfs3.NFS3ERR_BADHANDLE
	}
	fsid := binary.BigEndian.Uint32(b[4:])
	for _, e := range s.exports {
		if e.FSID == fsid {
			return e, vfs.ID{Ino: binary.BigEndian.Uint64(b[8:]), Gen: binary.BigEndian.Uint64(b[16:])}, nfs3.NFS3_OK
		}
	}
	return nil, vfs.ID{}, nfs3.NFS3ERR_STALE
}

// find gives the export that holds path, and the rest of path in it: the longest export path wins.
func (s *Server) find(path string) (best *export, rest string) {
	for _, e := range s.exports {
		dir := strings.TrimSuffix(e.Path, "/")
		if path != e.Path && !strings.HasPrefix(path, dir+"/") {
			continue
		}
		if best == nil || len(e.Path) > len(best.Path) {
			best, rest = e, strings.TrimPrefix(path, dir)
		}
	}
	return best, rest
}

// walk looks up a path of names below the root.
func (e *export) walk(ctx context.Context, path string, a *vfs.Attr) error {
	if err := e.FS.Attr(ctx, e.FS.Root(), a); err != nil {
		return err
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			continue
		}
		if a.Type != vfs.Directory {
			return vfs.ErrNotDir
		}
		if err := e.FS.Lookup(ctx, a.ID, name, a); err != nil {
			return err
		}
	}
	return nil
}
