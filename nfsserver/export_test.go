package nfsserver

import (
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsserver/vfs"
)

// MakeHandle makes a handle as the server does.
func MakeHandle(fsid uint32, id vfs.ID) nfs3.FH {
	e := export{Export: Export{FSID: fsid}}
	return e.handle(id)
}

// HandleID takes a handle apart.
func HandleID(fh nfs3.FH) (vfs.ID, bool) {
	s := Server{exports: []*export{{Export: Export{FSID: 1}}, {Export: Export{FSID: 2}}}}
	_, id, st := s.decode(&fh)
	return id, st == nfs3.NFS3_OK
}
