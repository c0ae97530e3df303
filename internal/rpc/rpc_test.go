package rpc_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xdr/xdrtest"
)

var sys = rpc.AuthSys{
	Stamp: 7, Machine: []byte("host1"), UID: 1000, GID: 100, NumGIDs: 3, GIDs: [rpc.MaxGIDs]uint32{4, 24, 100},
}

func sysCred() rpc.Auth { return rpc.Auth{Flavor: rpc.AUTH_SYS, Body: rpc.AppendAuthSys(nil, &sys)} }

// none is AUTH_NONE as a decode leaves it.
var none = rpc.Auth{Body: []byte{}}

func cases() []xdrtest.Case {
	call := func(name string, c rpc.Call) xdrtest.Case {
		c.XID, c.Prog, c.Vers = 0x01020304, 100003, 3
		return xdrtest.Of(name, &c, rpc.AppendCall, rpc.ConsumeCall)
	}
	reply := func(name string, r rpc.Reply) xdrtest.Case {
		r.XID = 0x01020304
		if r.Stat == rpc.MSG_ACCEPTED && r.Verf.Body == nil {
			r.Verf = none
		}
		return xdrtest.Of(name, &r, rpc.AppendReply, rpc.ConsumeReply)
	}
	full := rpc.AuthSys{Machine: []byte{}, NumGIDs: rpc.MaxGIDs}
	for i := range full.GIDs {
		full.GIDs[i] = uint32(i)
	}
	return []xdrtest.Case{
		xdrtest.Of("AUTH_SYS", &sys, rpc.AppendAuthSys, rpc.ConsumeAuthSys),
		xdrtest.Of("AUTH_SYS with all groups", &full, rpc.AppendAuthSys, rpc.ConsumeAuthSys),
		call("call with AUTH_NONE", rpc.Call{Cred: none, Verf: none}),
		call("call with AUTH_SYS", rpc.Call{Proc: 6, Cred: sysCred(), Verf: none}),
		call("call with unknown flavors", rpc.Call{
			Cred: rpc.Auth{Flavor: 99, Body: []byte("abcde")}, Verf: rpc.Auth{Flavor: rpc.AUTH_SHORT, Body: []byte{0xff}},
		}),
		reply("success", rpc.Reply{}),
		reply("success with a verifier", rpc.Reply{Verf: rpc.Auth{Flavor: rpc.RPCSEC_GSS, Body: []byte("mic!")}}),
		reply("program unavailable", rpc.Reply{Accept: rpc.PROG_UNAVAIL}),
		reply("program mismatch", rpc.Reply{Accept: rpc.PROG_MISMATCH, Low: 2, High: 4}),
		reply("procedure unavailable", rpc.Reply{Accept: rpc.PROC_UNAVAIL}),
		reply("garbage arguments", rpc.Reply{Accept: rpc.GARBAGE_ARGS}),
		reply("system error", rpc.Reply{Accept: rpc.SYSTEM_ERR}),
		reply("rpc mismatch", rpc.Reply{Stat: rpc.MSG_DENIED, Reject: rpc.RPC_MISMATCH, Low: 2, High: 2}),
		reply("authentication error", rpc.Reply{Stat: rpc.MSG_DENIED, Reject: rpc.AUTH_ERROR, Auth: rpc.AUTH_TOOWEAK}),
	}
}

func TestCases(t *testing.T) { xdrtest.Run(t, "rpc.txt", cases()) }

func TestErrors(t *testing.T) {
	patch := func(b []byte, off int, v uint32) []byte {
		return append(xdr.AppendUint32(append([]byte(nil), b[:off]...), v), b[off+4:]...)
	}
	call := rpc.AppendCall(nil, &rpc.Call{XID: 9, Cred: sysCred()})
	ok := rpc.AppendReply(nil, &rpc.Reply{XID: 9})
	denied := rpc.AppendReply(nil, &rpc.Reply{XID: 9, Stat: rpc.MSG_DENIED, Reject: rpc.AUTH_ERROR})
	for _, c := range []struct {
		name  string
		reply bool
		in    []byte
		err   error
		field string
	}{
		{"reply for a call", false, ok, rpc.ErrMsgType, "mtype"},
		{"call for a reply", true, call, rpc.ErrMsgType, "mtype"},
		{"rpcvers", false, patch(call, 8, 3), rpc.ErrVersion, "rpcvers"},
		{"credential of 401 bytes", false, append(patch(call, 28, 401), make([]byte, 500)...), xdr.ErrTooLong, "cred"},
		{"verifier of 401 bytes", true, append(patch(ok, 16, 401), make([]byte, 500)...), xdr.ErrTooLong, "verf"},
		{"reply_stat", true, patch(ok, 8, 2), xdr.ErrInvalid, "reply_stat"},
		{"accept_stat", true, patch(ok, 20, 6), xdr.ErrInvalid, "accept_stat"},
		{"reject_stat", true, patch(denied, 12, 2), xdr.ErrInvalid, "reject_stat"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n int
			var err error
			var xid uint32
			if c.reply {
				var r rpc.Reply
				n, err = rpc.ConsumeReply(c.in, &r)
				xid = r.XID
			} else {
				var v rpc.Call
				n, err = rpc.ConsumeCall(c.in, &v)
				xid = v.XID
			}
			assert.Equal(t, -1, n)
			require.ErrorIs(t, err, c.err)
			var e *xdr.Error
			require.True(t, errors.As(err, &e))
			assert.Equal(t, c.field, e.Field)
			assert.EqualValues(t, 9, xid, "an answer needs the XID")
		})
	}
}

func TestAuthSysBounds(t *testing.T) {
	var a rpc.AuthSys
	long := sys
	long.Machine = make([]byte, rpc.MaxMachineName+1)
	_, err := rpc.ConsumeAuthSys(rpc.AppendAuthSys(nil, &long), &a)
	assert.ErrorIs(t, err, xdr.ErrTooLong)

	b := append(rpc.AppendAuthSys(nil, &sys), make([]byte, 100)...)
	b[27] = rpc.MaxGIDs + 1 // behind stamp, machinename in 12 bytes, uid and gid
	_, err = rpc.ConsumeAuthSys(b, &a)
	assert.ErrorIs(t, err, xdr.ErrTooLong)

	// What an earlier credential left must not show.
	a = rpc.AuthSys{NumGIDs: rpc.MaxGIDs, GIDs: [rpc.MaxGIDs]uint32{15: 1}}
	_, err = rpc.ConsumeAuthSys(rpc.AppendAuthSys(nil, &sys), &a)
	require.NoError(t, err)
	assert.Equal(t, sys, a)
	assert.Equal(t, []uint32{4, 24, 100}, a.Groups())
}

func TestNames(t *testing.T) {
	assert.Equal(t, "AUTH_NONE AUTH_DH RPCSEC_GSS AUTH(9)",
		rpc.AUTH_NONE.String()+" "+rpc.AUTH_DH.String()+" "+rpc.RPCSEC_GSS.String()+" "+rpc.Flavor(9).String())
	assert.Equal(t, "ACCEPT_STAT(6)", rpc.AcceptStat(6).String())
	assert.Equal(t, "AUTH_STAT(14)", rpc.AuthStat(14).String())
	// A body that claims to be AUTH_SYS and is not shows as it is.
	c := rpc.Call{Cred: rpc.Auth{Flavor: rpc.AUTH_SYS, Body: []byte{1, 2}}}
	assert.Contains(t, c.String(), "cred=AUTH_SYS:0102 ")
}

func TestReplySuccess(t *testing.T) {
	b := rpc.AppendReplySuccess(nil, 0xcafe)
	assert.Len(t, b, rpc.SuccessLen)
	assert.Equal(t, rpc.AppendReply(nil, &rpc.Reply{XID: 0xcafe}), b)
	assert.Len(t, rpc.AppendReply(nil, &rpc.Reply{Accept: rpc.PROG_MISMATCH}), rpc.MaxReplyLen)
}

func TestConsumeMsgType(t *testing.T) {
	xid, kind, n := rpc.ConsumeMsgType(rpc.AppendCall(nil, &rpc.Call{XID: 5}))
	assert.EqualValues(t, 5, xid)
	assert.Equal(t, rpc.CALL, kind)
	assert.Equal(t, 8, n)
	_, kind, _ = rpc.ConsumeMsgType(rpc.AppendReplySuccess(nil, 5))
	assert.Equal(t, rpc.REPLY, kind)
	for i := range 8 {
		_, _, n = rpc.ConsumeMsgType(make([]byte, i))
		assert.Negative(t, n)
	}
}

func TestRoundTrip(t *testing.T) {
	auth := rapid.Custom(func(t *rapid.T) rpc.Auth {
		return rpc.Auth{
			Flavor: rpc.Flavor(rapid.Uint32().Draw(t, "flavor")),
			Body:   rapid.SliceOfN(rapid.Byte(), 0, rpc.MaxAuthLen).Draw(t, "body"),
		}
	})
	u32 := rapid.Uint32()
	rapid.Check(t, func(t *rapid.T) {
		c := rpc.Call{
			XID: u32.Draw(t, "xid"), Prog: u32.Draw(t, "prog"), Vers: u32.Draw(t, "vers"), Proc: u32.Draw(t, "proc"),
			Cred: auth.Draw(t, "cred"), Verf: auth.Draw(t, "verf"),
		}
		b := rpc.AppendCall(nil, &c)
		require.Len(t, b, rpc.CallLen(&c))
		var got rpc.Call
		n, err := rpc.ConsumeCall(b, &got)
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, c.String(), got.String())
		require.Equal(t, b, rpc.AppendCall(nil, &got))

		r := rpc.Reply{XID: c.XID, Accept: rpc.AcceptStat(rapid.IntRange(0, 5).Draw(t, "accept")), Verf: c.Verf}
		b = rpc.AppendReply(nil, &r)
		var gotReply rpc.Reply
		n, err = rpc.ConsumeReply(b, &gotReply)
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, b, rpc.AppendReply(nil, &gotReply))
	})
}

func TestAllocs(t *testing.T) {
	call := rpc.AppendCall(nil, &rpc.Call{Cred: sysCred()})
	reply := rpc.AppendReplySuccess(nil, 1)
	buf := make([]byte, 0, 256)
	var c rpc.Call
	var a rpc.AuthSys
	var r rpc.Reply
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, err1 := rpc.ConsumeCall(call, &c)
		_, err2 := rpc.ConsumeAuthSys(c.Cred.Body, &a)
		_, err3 := rpc.ConsumeReply(reply, &r)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		buf = rpc.AppendCall(buf[:0], &c)
		buf = rpc.AppendAuthSys(buf[:0], &a)
		buf = rpc.AppendReplySuccess(buf[:0], 1)
	}))
}

// TestHostileCounts wants a length that the message cannot hold to cost the error and no more.
func TestHostileCounts(t *testing.T) {
	for _, v := range []uint32{1 << 28, 1 << 31, math.MaxUint32} {
		call := xdr.AppendUint32(rpc.AppendCall(nil, &rpc.Call{})[:28], v)
		gids := xdr.AppendUint32(rpc.AppendAuthSys(nil, &rpc.AuthSys{})[:16], v)
		var c rpc.Call
		var a rpc.AuthSys
		assert.LessOrEqual(t, testing.AllocsPerRun(10, func() {
			if n, _ := rpc.ConsumeCall(call, &c); n >= 0 {
				t.Fatal("taken")
			}
		}), 1.0)
		assert.LessOrEqual(t, testing.AllocsPerRun(10, func() {
			if n, _ := rpc.ConsumeAuthSys(gids, &a); n >= 0 {
				t.Fatal("taken")
			}
		}), 1.0)
	}
}
