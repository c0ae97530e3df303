package mount3

import (
	"fmt"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xdr"
)

// PathArgs are the arguments of MNT and UMNT: a dirpath.
type PathArgs struct {
	Path []byte // at most MaxPathLen bytes
}

// AppendPathArgs encodes the arguments of MNT or UMNT.
func AppendPathArgs(b []byte, v *PathArgs) []byte { return xdr.AppendOpaque(b, v.Path) }

// ConsumePathArgs decodes the arguments of MNT or UMNT.
func ConsumePathArgs(b []byte, v *PathArgs) (n int, err error) {
	r := xdr.NewReader(b)
	v.Path = r.Opaque("dirpath", MaxPathLen)
	return r.Done()
}

func (v *PathArgs) String() string { return fmt.Sprintf("dirpath=%q", v.Path) }

// MntRes is the result of MNT, mountres3.
type MntRes struct {
	Status  Status
	FH      nfs3.FH      // of the root of the export
	Flavors []rpc.Flavor // credentials the server takes, best first; its storage is reused
}

// AppendMntRes encodes the result of MNT.
func AppendMntRes(b []byte, v *MntRes) []byte {
	b = xdr.AppendUint32(b, uint32(v.Status))
	if v.Status != MNT3_OK {
		return b
	}
	b = xdr.AppendOpaque(b, v.FH.Bytes())
	b = xdr.AppendUint32(b, uint32(len(v.Flavors)))
	for _, f := range v.Flavors {
		b = xdr.AppendUint32(b, uint32(f))
	}
	return b
}

// ConsumeMntRes decodes the result of MNT.
func ConsumeMntRes(b []byte, v *MntRes) (n int, err error) {
	r := xdr.NewReader(b)
	*v = MntRes{Status: Status(r.Uint32("fhs_status")), Flavors: v.Flavors[:0]}
	if v.Status != MNT3_OK {
		return r.Done()
	}
	v.FH, _ = nfs3.MakeFH(r.Opaque("fhandle", nfs3.MaxFHLen))
	for range r.Count("auth_flavors", 4, MaxFlavors) {
		v.Flavors = append(v.Flavors, rpc.Flavor(r.Uint32("auth_flavors")))
	}
	return r.Done()
}

func (v *MntRes) String() string {
	if v.Status != MNT3_OK {
		return "MNT " + v.Status.String()
	}
	return fmt.Sprintf("MNT %v fhandle=%v auth_flavors=%v", v.Status, v.FH, v.Flavors)
}
