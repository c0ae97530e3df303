package rpc

import (
	"fmt"
	"strconv"

	"example.org/nfsrdma/internal/xdr"
)

// ReplyStat is reply_stat.
type ReplyStat uint32

const (
	MSG_ACCEPTED ReplyStat = 0
	MSG_DENIED   ReplyStat = 1
)

// AcceptStat is accept_stat, the fate of a call that was accepted.
type AcceptStat uint32

const (
	SUCCESS       AcceptStat = 0
	PROG_UNAVAIL  AcceptStat = 1
	PROG_MISMATCH AcceptStat = 2 // Low and High say which versions there are
	PROC_UNAVAIL  AcceptStat = 3
	GARBAGE_ARGS  AcceptStat = 4
	SYSTEM_ERR    AcceptStat = 5
)

func (s AcceptStat) String() string {
	names := [...]string{"SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"}
	if int(s) < len(names) {
		return names[s]
	}
	return "ACCEPT_STAT(" + strconv.FormatUint(uint64(s), 10) + ")"
}

// RejectStat is reject_stat, the reason for a call to be denied.
type RejectStat uint32

const (
	RPC_MISMATCH RejectStat = 0 // Low and High say which rpcvers there are
	AUTH_ERROR   RejectStat = 1 // Auth says why
)

// AuthStat is auth_stat.
type AuthStat uint32

const (
	AUTH_OK           AuthStat = 0
	AUTH_BADCRED      AuthStat = 1
	AUTH_REJECTEDCRED AuthStat = 2
	AUTH_BADVERF      AuthStat = 3
	AUTH_REJECTEDVERF AuthStat = 4
	AUTH_TOOWEAK      AuthStat = 5
	AUTH_INVALIDRESP  AuthStat = 6
	AUTH_FAILED       AuthStat = 7
)

func (s AuthStat) String() string {
	names := [...]string{"AUTH_OK", "AUTH_BADCRED", "AUTH_REJECTEDCRED", "AUTH_BADVERF", "AUTH_REJECTEDVERF",
		"AUTH_TOOWEAK", "AUTH_INVALIDRESP", "AUTH_FAILED"}
	if int(s) < len(names) {
		return names[s]
	}
	return "AUTH_STAT(" + strconv.FormatUint(uint64(s), 10) + ")"
}

// Reply is the header of a reply; results follow it if OK.
type Reply struct {
	XID       uint32
	Stat      ReplyStat
	Verf      Auth       // MSG_ACCEPTED
	Accept    AcceptStat // MSG_ACCEPTED
	Reject    RejectStat // MSG_DENIED
	Auth      AuthStat   // AUTH_ERROR
	Low, High uint32     // PROG_MISMATCH and RPC_MISMATCH
}

// OK reports whether results follow.
func (p *Reply) OK() bool { return p.Stat == MSG_ACCEPTED && p.Accept == SUCCESS }

// SuccessLen is the length in bytes of a SUCCESS header with an AUTH_NONE verifier, and the longest
// header there is with one is MaxReplyLen.
const (
	SuccessLen  = 24
	MaxReplyLen = SuccessLen + 8
)

// AppendReply encodes a reply header.
func AppendReply(b []byte, p *Reply) []byte {
	b = xdr.AppendUint32(b, p.XID)
	b = xdr.AppendUint32(b, uint32(REPLY))
	b = xdr.AppendUint32(b, uint32(p.Stat))
	mismatch := false
	if p.Stat == MSG_ACCEPTED {
		b = p.Verf.append(b)
		b = xdr.AppendUint32(b, uint32(p.Accept))
		mismatch = p.Accept == PROG_MISMATCH
	} else {
		b = xdr.AppendUint32(b, uint32(p.Reject))
		mismatch = p.Reject == RPC_MISMATCH
		if !mismatch {
			b = xdr.AppendUint32(b, uint32(p.Auth))
		}
	}
	if mismatch {
		b = xdr.AppendUint32(b, p.Low)
		b = xdr.AppendUint32(b, p.High)
	}
	return b
}

// successTail is what follows the XID: REPLY, MSG_ACCEPTED, AUTH_NONE, no body, SUCCESS.
var successTail = [SuccessLen - 4]byte{3: byte(REPLY)}

// AppendReplySuccess encodes the header of a SUCCESS with an AUTH_NONE verifier, SuccessLen bytes.
func AppendReplySuccess(b []byte, xid uint32) []byte {
	b = xdr.AppendUint32(b, xid)
	return append(b, successTail[:]...)
}

// ConsumeReply decodes a reply header and gives its length; the results are b[n:].
func ConsumeReply(b []byte, p *Reply) (n int, err error) {
	r := xdr.NewReader(b)
	*p = Reply{XID: r.Uint32("xid")}
	wantWord(&r, "mtype", uint32(REPLY), ErrMsgType)
	p.Stat = ReplyStat(r.Enum("reply_stat", uint32(MSG_ACCEPTED), uint32(MSG_DENIED)))
	mismatch := false
	if p.Stat == MSG_ACCEPTED {
		p.Verf.consume(&r, "verf")
		p.Accept = AcceptStat(r.Enum("accept_stat", uint32(SUCCESS), uint32(SYSTEM_ERR)))
		mismatch = p.Accept == PROG_MISMATCH
	} else {
		p.Reject = RejectStat(r.Enum("reject_stat", uint32(RPC_MISMATCH), uint32(AUTH_ERROR)))
		mismatch = p.Reject == RPC_MISMATCH
		if !mismatch {
			p.Auth = AuthStat(r.Uint32("auth_stat"))
		}
	}
	if mismatch {
		p.Low = r.Uint32("low")
		p.High = r.Uint32("high")
	}
	return r.Done()
}

func (p *Reply) String() string {
	s := fmt.Sprintf("REPLY xid=0x%08x ", p.XID)
	mismatch := fmt.Sprintf("low=%d high=%d", p.Low, p.High)
	switch {
	case p.Stat != MSG_ACCEPTED && p.Reject == RPC_MISMATCH:
		return s + "MSG_DENIED RPC_MISMATCH " + mismatch
	case p.Stat != MSG_ACCEPTED:
		return s + "MSG_DENIED AUTH_ERROR " + p.Auth.String()
	case p.Accept == PROG_MISMATCH:
		return s + fmt.Sprintf("%v %s verf=%v", p.Accept, mismatch, &p.Verf)
	}
	return s + fmt.Sprintf("%v verf=%v", p.Accept, &p.Verf)
}
