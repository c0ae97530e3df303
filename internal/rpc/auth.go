package rpc

import (
	"fmt"
	"strconv"

	"example.org/nfsrdma/internal/xdr"
)

// Flavor names the kind of a credential or verifier.
type Flavor uint32

const (
	AUTH_NONE  Flavor = 0
	AUTH_SYS   Flavor = 1
	AUTH_SHORT Flavor = 2
	AUTH_DH    Flavor = 3
	RPCSEC_GSS Flavor = 6
)

func (f Flavor) String() string {
	switch f {
	case AUTH_NONE:
		return "AUTH_NONE"
	case AUTH_SYS:
		return "AUTH_SYS"
	case AUTH_SHORT:
		return "AUTH_SHORT"
	case AUTH_DH:
		return "AUTH_DH"
	case RPCSEC_GSS:
		return "RPCSEC_GSS"
	}
	return "AUTH(" + strconv.FormatUint(uint64(f), 10) + ")"
}

// MaxAuthLen bounds the body of a credential or verifier, in bytes (RFC 5531 section 8.2).
const MaxAuthLen = 400

// Auth is an opaque_auth. A flavor that is not known is carried as it is.
type Auth struct {
	Flavor Flavor
	Body   []byte // at most MaxAuthLen bytes; aliases the input after a decode
}

func (a *Auth) append(b []byte) []byte {
	return xdr.AppendOpaque(xdr.AppendUint32(b, uint32(a.Flavor)), a.Body)
}

func (a *Auth) consume(r *xdr.Reader, field string) {
	a.Flavor = Flavor(r.Uint32(field))
	a.Body = r.Opaque(field, MaxAuthLen)
}

func (a *Auth) String() string {
	if len(a.Body) == 0 {
		return a.Flavor.String()
	}
	var sys AuthSys
	if a.Flavor == AUTH_SYS {
		if n, err := ConsumeAuthSys(a.Body, &sys); err == nil && n == len(a.Body) {
			return sys.String()
		}
	}
	return fmt.Sprintf("%v:%x", a.Flavor, a.Body)
}

// Bounds of AUTH_SYS (RFC 5531 appendix A).
const (
	MaxMachineName = 255 // bytes
	MaxGIDs        = 16
)

// AuthSys is the body of an AUTH_SYS credential.
type AuthSys struct {
	Stamp   uint32
	Machine []byte // name of the caller's machine; aliases the input after a decode
	UID     uint32
	GID     uint32
	NumGIDs int // of GIDs, 0 to MaxGIDs
	GIDs    [MaxGIDs]uint32
}

// Groups gives the supplementary groups.
func (a *AuthSys) Groups() []uint32 { return a.GIDs[:a.NumGIDs] }

// AppendAuthSys encodes the body of an AUTH_SYS credential.
func AppendAuthSys(b []byte, a *AuthSys) []byte {
	b = xdr.AppendUint32(b, a.Stamp)
	b = xdr.AppendOpaque(b, a.Machine)
	b = xdr.AppendUint32(b, a.UID)
	b = xdr.AppendUint32(b, a.GID)
	b = xdr.AppendUint32(b, uint32(a.NumGIDs))
	for _, g := range a.Groups() {
		b = xdr.AppendUint32(b, g)
	}
	return b
}

// ConsumeAuthSys decodes the body of an AUTH_SYS credential.
func ConsumeAuthSys(b []byte, a *AuthSys) (n int, err error) {
	r := xdr.NewReader(b)
	a.Stamp = r.Uint32("stamp")
	a.Machine = r.Opaque("machinename", MaxMachineName)
	a.UID = r.Uint32("uid")
	a.GID = r.Uint32("gid")
	a.NumGIDs = r.Count("gids", 4, MaxGIDs)
	a.GIDs = [MaxGIDs]uint32{}
	for i := range a.NumGIDs {
		a.GIDs[i] = r.Uint32("gids")
	}
	return r.Done()
}

func (a *AuthSys) String() string {
	return fmt.Sprintf("AUTH_SYS machine=%q uid=%d gid=%d gids=%d", a.Machine, a.UID, a.GID, a.Groups())
}
