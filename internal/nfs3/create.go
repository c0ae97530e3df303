package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// CreateMode is createmode3.
type CreateMode uint32

const (
	UNCHECKED CreateMode = 0 // an existing file is kept
	GUARDED   CreateMode = 1 // an existing file is NFS3ERR_EXIST
	EXCLUSIVE CreateMode = 2 // GUARDED, and a retransmission is told by the verifier
)

func (m CreateMode) String() string {
	switch m {
	case UNCHECKED:
		return "UNCHECKED"
	case GUARDED:
		return "GUARDED"
	case EXCLUSIVE:
		return "EXCLUSIVE"
	}
	return fmt.Sprintf("CREATEMODE(%d)", uint32(m))
}

// CreateArgs are the arguments of CREATE (RFC 1813 section 3.3.8).
type CreateArgs struct {
	Where DirOp
	Mode  CreateMode
	Attr  Sattr3 // UNCHECKED and GUARDED
	Verf  Verf   // EXCLUSIVE
}

// AppendCreateArgs encodes the arguments of CREATE.
func AppendCreateArgs(b []byte, v *CreateArgs) []byte { return v.append(b) }

// ConsumeCreateArgs decodes the arguments of CREATE.
func ConsumeCreateArgs(b []byte, v *CreateArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *CreateArgs) append(b []byte) []byte {
	b = xdr.AppendUint32(v.Where.append(b), uint32(v.Mode))
	if v.Mode == EXCLUSIVE {
		return v.Verf.append(b)
	}
	return v.Attr.append(b)
}

func (v *CreateArgs) consume(r *xdr.Reader) {
	*v = CreateArgs{}
	v.Where.consume(r, "where")
	v.Mode = CreateMode(r.Enum("mode", uint32(UNCHECKED), uint32(EXCLUSIVE)))
	if v.Mode == EXCLUSIVE {
		v.Verf.consume(r, "verf")
	} else {
		v.Attr.consume(r)
	}
}

func (v *CreateArgs) String() string {
	if v.Mode == EXCLUSIVE {
		return fmt.Sprintf("CREATE where=%v EXCLUSIVE verf=%v", &v.Where, v.Verf)
	}
	return fmt.Sprintf("CREATE where=%v %v obj_attributes=%v", &v.Where, v.Mode, &v.Attr)
}

// CreateRes is the result of CREATE (RFC 1813 section 3.3.8).
type CreateRes struct {
	Status Status

	Object  PostOpFH
	ObjAttr PostOpAttr
	DirWcc  WccData // both arms
}

// AppendCreateRes encodes the result of CREATE.
func AppendCreateRes(b []byte, v *CreateRes) []byte { return v.append(b) }

// ConsumeCreateRes decodes the result of CREATE.
func ConsumeCreateRes(b []byte, v *CreateRes) (n int, err error) {
	r := xdr.NewReader(b)
	v.consume(&r)
	return r.Done()
}

func (v *CreateRes) append(b []byte) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	if v.Status == NFS3_OK {
		b = v.Object.append(b)
		b = v.ObjAttr.append(b)
	}
	b = v.DirWcc.append(b)
	return b
}

func (v *CreateRes) consume(r *xdr.Reader) {
	*v = CreateRes{Status: consumeStatus(r)}
	if v.Status == NFS3_OK {
		v.Object.consume(r, "obj")
		v.ObjAttr.consume(r, "obj_attributes")
	}
	v.DirWcc.consume(r, "dir_wcc")
}

func (v *CreateRes) String() string {
	if v.Status != NFS3_OK {
		return fmt.Sprintf("CREATE %v dir_wcc=%v", v.Status, &v.DirWcc)
	}
	return fmt.Sprintf("CREATE %v obj=%v obj_attributes=%v dir_wcc=%v", v.Status, &v.Object, &v.ObjAttr, &v.DirWcc)
}
