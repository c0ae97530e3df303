package rpc_test

import (
	"testing"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xdr/xdrtest"
)

func seed(f *testing.F) {
	for _, c := range cases() {
		f.Add(c.Bytes())
	}
}

func FuzzConsumeCall(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var c rpc.Call
		n, err := rpc.ConsumeCall(b, &c)
		_ = c.String()
		if err == nil {
			xdrtest.WantRecode(t, b, n, rpc.AppendCall(nil, &c))
		}
	})
}

func FuzzConsumeReply(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r rpc.Reply
		n, err := rpc.ConsumeReply(b, &r)
		_ = r.String()
		if err == nil {
			xdrtest.WantRecode(t, b, n, rpc.AppendReply(nil, &r))
		}
	})
}

func FuzzConsumeAuthSys(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var a rpc.AuthSys
		n, err := rpc.ConsumeAuthSys(b, &a)
		_ = a.String()
		if err == nil {
			xdrtest.WantRecode(t, b, n, rpc.AppendAuthSys(nil, &a))
		}
	})
}

func FuzzConsumeRecordMark(f *testing.F) {
	f.Add(rpc.AppendRecordMark(nil, 40, true))
	f.Fuzz(func(t *testing.T, b []byte) {
		if size, last, n := rpc.ConsumeRecordMark(b); n > 0 {
			xdrtest.WantRecode(t, b, n, rpc.AppendRecordMark(nil, size, last))
		}
	})
}
