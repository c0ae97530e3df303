package mount3_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xdr/xdrtest"
)

func fh(s string) nfs3.FH {
	f, _ := nfs3.MakeFH([]byte(s))
	return f
}

func cases() []xdrtest.Case {
	dump := func(name string, m ...mount3.Mount) xdrtest.Case {
		return xdrtest.Of(name, &mount3.DumpRes{Mounts: m}, mount3.AppendDumpRes, mount3.ConsumeDumpRes)
	}
	export := func(name string, e ...mount3.Export) xdrtest.Case {
		return xdrtest.Of(name, &mount3.ExportRes{Exports: e}, mount3.AppendExportRes, mount3.ConsumeExportRes)
	}
	return []xdrtest.Case{
		xdrtest.Of("MNT or UMNT arguments", &mount3.PathArgs{Path: []byte("/export")}, mount3.AppendPathArgs, mount3.ConsumePathArgs),
		xdrtest.Of("MNT", &mount3.MntRes{FH: fh("root handle"), Flavors: []rpc.Flavor{rpc.AUTH_SYS, rpc.AUTH_NONE}},
			mount3.AppendMntRes, mount3.ConsumeMntRes),
		xdrtest.Of("MNT refused", &mount3.MntRes{Status: mount3.MNT3ERR_ACCES}, mount3.AppendMntRes, mount3.ConsumeMntRes),
		dump("DUMP of nothing"),
		dump("DUMP", mount3.Mount{Hostname: []byte("host1"), Path: []byte("/a")}, mount3.Mount{Hostname: []byte("host2"), Path: []byte("/bcd")}),
		export("EXPORT of nothing"),
		export("EXPORT", mount3.Export{Path: []byte("/a")},
			mount3.Export{Path: []byte("/bcd"), Groups: [][]byte{[]byte("net1"), []byte("trusted")}}),
	}
}

func TestCases(t *testing.T) { xdrtest.Run(t, "mount3.txt", cases()) }

// TestLinuxMount is the mount of an export by Linux 6.1 over TCP, record marks and all.
func TestLinuxMount(t *testing.T) {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		size, last, n := rpc.ConsumeRecordMark(b)
		require.Equal(t, len(b)-rpc.RecordMarkLen, size)
		require.True(t, last)
		return b[n:]
	}
	call := unhex("80000050f056c7990000000000000002000186a50000000300000001000000010000001c0000000000000006286e6f6e652900000000000000000000" +
		"000000000000000000000000000000072f6578706f727400")
	reply := unhex("80000030f056c7990000000100000000000000000000000000000000000000000000000801000100000000000000000100000001")

	var c rpc.Call
	n, err := rpc.ConsumeCall(call, &c)
	require.NoError(t, err)
	assert.EqualValues(t, mount3.Program, c.Prog)
	assert.EqualValues(t, mount3.Version, c.Vers)
	assert.EqualValues(t, mount3.MNT, c.Proc)
	var args mount3.PathArgs
	m, err := mount3.ConsumePathArgs(call[n:], &args)
	require.NoError(t, err)
	assert.Equal(t, len(call), n+m)
	assert.Equal(t, `dirpath="/export"`, args.String())
	assert.Equal(t, call, mount3.AppendPathArgs(rpc.AppendCall(nil, &c), &args))

	var r rpc.Reply
	n, err = rpc.ConsumeReply(reply, &r)
	require.NoError(t, err)
	require.True(t, r.OK())
	var res mount3.MntRes
	m, err = mount3.ConsumeMntRes(reply[n:], &res)
	require.NoError(t, err)
	assert.Equal(t, len(reply), n+m)
	assert.Equal(t, "MNT MNT3_OK fhandle=0100010000000000 auth_flavors=[AUTH_SYS]", res.String())
	assert.Equal(t, reply, mount3.AppendMntRes(rpc.AppendReplySuccess(nil, r.XID), &res))
}

func TestBounds(t *testing.T) {
	long := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	for _, c := range []struct {
		name string
		in   []byte
		to   func(b []byte) error
	}{
		{"dirpath", mount3.AppendPathArgs(nil, &mount3.PathArgs{Path: long(mount3.MaxPathLen + 1)}),
			func(b []byte) error { _, err := mount3.ConsumePathArgs(b, &mount3.PathArgs{}); return err }},
		{"fhandle", xdr.AppendOpaque(xdr.AppendUint32(nil, 0), long(nfs3.MaxFHLen+1)),
			func(b []byte) error { _, err := mount3.ConsumeMntRes(b, &mount3.MntRes{}); return err }},
		{"flavors", mount3.AppendMntRes(nil, &mount3.MntRes{Flavors: make([]rpc.Flavor, mount3.MaxFlavors+1)}),
			func(b []byte) error { _, err := mount3.ConsumeMntRes(b, &mount3.MntRes{}); return err }},
		{"hostname", mount3.AppendDumpRes(nil, &mount3.DumpRes{Mounts: []mount3.Mount{{Hostname: long(mount3.MaxNameLen + 1)}}}),
			func(b []byte) error { _, err := mount3.ConsumeDumpRes(b, &mount3.DumpRes{}); return err }},
		{"mounts", mount3.AppendDumpRes(nil, &mount3.DumpRes{Mounts: make([]mount3.Mount, mount3.MaxList+1)}),
			func(b []byte) error { _, err := mount3.ConsumeDumpRes(b, &mount3.DumpRes{}); return err }},
		{"group", mount3.AppendExportRes(nil, &mount3.ExportRes{Exports: []mount3.Export{{Groups: [][]byte{long(mount3.MaxNameLen + 1)}}}}),
			func(b []byte) error { _, err := mount3.ConsumeExportRes(b, &mount3.ExportRes{}); return err }},
	} {
		assert.ErrorIs(t, c.to(c.in), xdr.ErrTooLong, c.name)
	}
}

// TestHostileCounts wants a number of flavors that the message cannot hold to cost the error and no more.
func TestHostileCounts(t *testing.T) {
	for _, v := range []uint32{1 << 28, 1 << 31, math.MaxUint32} {
		b := xdr.AppendUint32(mount3.AppendMntRes(nil, &mount3.MntRes{})[:8], v)
		var res mount3.MntRes
		assert.LessOrEqual(t, testing.AllocsPerRun(10, func() {
			if n, _ := mount3.ConsumeMntRes(b, &res); n >= 0 {
				t.Fatal("taken")
			}
		}), 1.0)
		assert.Zero(t, cap(res.Flavors))
	}
}

func TestRoundTrip(t *testing.T) {
	path := rapid.SliceOfN(rapid.Byte(), 0, 70)
	var got mount3.ExportRes // shared, so that what one decode leaves would be found by the next
	rapid.Check(t, func(t *rapid.T) {
		var v mount3.ExportRes
		for range rapid.IntRange(0, 4).Draw(t, "exports") {
			e := mount3.Export{Path: path.Draw(t, "path")}
			for range rapid.IntRange(0, 3).Draw(t, "groups") {
				e.Groups = append(e.Groups, path.Draw(t, "group"))
			}
			v.Exports = append(v.Exports, e)
		}
		b := mount3.AppendExportRes(nil, &v)
		n, err := mount3.ConsumeExportRes(b, &got)
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, v.String(), got.String())
		require.Equal(t, b, mount3.AppendExportRes(nil, &got))
	})
}

func TestNames(t *testing.T) {
	assert.Equal(t, "UMNTALL", mount3.UMNTALL.String())
	assert.Equal(t, "PROC(6)", mount3.Proc(6).String())
	for s, want := range map[mount3.Status]string{
		mount3.MNT3_OK: "MNT3_OK", mount3.MNT3ERR_PERM: "MNT3ERR_PERM", mount3.MNT3ERR_NOENT: "MNT3ERR_NOENT",
		mount3.MNT3ERR_IO: "MNT3ERR_IO", mount3.MNT3ERR_NOTDIR: "MNT3ERR_NOTDIR", mount3.MNT3ERR_INVAL: "MNT3ERR_INVAL",
		mount3.MNT3ERR_NAMETOOLONG: "MNT3ERR_NAMETOOLONG", mount3.MNT3ERR_NOTSUPP: "MNT3ERR_NOTSUPP",
		mount3.MNT3ERR_SERVERFAULT: "MNT3ERR_SERVERFAULT", 9: "MNT3ERR(9)",
	} {
		assert.EqualError(t, s, want)
	}
}
