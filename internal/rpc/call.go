package rpc

import (
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// Version is the RPC protocol version, rpcvers.
const Version = 2

// MsgType is msg_type, the direction of a message.
type MsgType uint32

const (
	CALL  MsgType = 0
	REPLY MsgType = 1
)

// Reasons for a header not to decode, besides those of package xdr.
var (
	// ErrVersion is an rpcvers other than 2. The XID is valid; the answer is RPC_MISMATCH.
	ErrVersion = errors.New("rpc version not supported")
	// ErrMsgType is a reply where a call was wanted, or the other way round. The XID is valid.
	ErrMsgType = errors.New("wrong message type")
)

// Call is the header of a call; the arguments follow it.
type Call struct {
	XID  uint32
	Prog uint32
	Vers uint32 // of the program
	Proc uint32
	Cred Auth
	Verf Auth
}

// CallLen is the length in bytes of c once encoded.
func CallLen(c *Call) int {
	return 40 + xdr.Roundup(len(c.Cred.Body)) + xdr.Roundup(len(c.Verf.Body))
}

// AppendCall encodes a call header.
func AppendCall(b []byte, c *Call) []byte {
	b = xdr.AppendUint32(b, c.XID)
	b = xdr.AppendUint32(b, uint32(CALL))
	b = xdr.AppendUint32(b, Version)
	b = xdr.AppendUint32(b, c.Prog)
	b = xdr.AppendUint32(b, c.Vers)
	b = xdr.AppendUint32(b, c.Proc)
	return c.Verf.append(c.Cred.append(b))
}

// ConsumeCall decodes a call header and gives its length; the arguments are b[n:].
func ConsumeCall(b []byte, c *Call) (n int, err error) {
	r := xdr.NewReader(b)
	*c = Call{XID: r.Uint32("xid")}
	wantWord(&r, "mtype", uint32(CALL), ErrMsgType)
	wantWord(&r, "rpcvers", Version, ErrVersion)
	c.Prog = r.Uint32("prog")
	c.Vers = r.Uint32("vers")
	c.Proc = r.Uint32("proc")
	c.Cred.consume(&r, "cred")
	c.Verf.consume(&r, "verf")
	return r.Done()
}

func wantWord(r *xdr.Reader, field string, want uint32, err error) {
	at := r.Off()
	if v := r.Uint32(field); r.Ok() && v != want {
		r.Fail(field, at, err)
	}
}

// ConsumeMsgType reads the XID and direction that every message begins with.
func ConsumeMsgType(b []byte) (xid uint32, t MsgType, n int) {
	xid, n = xdr.ConsumeUint32(b)
	if n < 0 {
		return 0, 0, n
	}
	w, m := xdr.ConsumeUint32(b[n:])
	if m < 0 {
		return 0, 0, m
	}
	return xid, MsgType(w), n + m
}

func (c *Call) String() string {
	return fmt.Sprintf("CALL xid=0x%08x prog=%d vers=%d proc=%d cred=%v verf=%v",
		c.XID, c.Prog, c.Vers, c.Proc, &c.Cred, &c.Verf)
}
