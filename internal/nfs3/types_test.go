package nfs3

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFH(t *testing.T) {
	a, ok := MakeFH([]byte("handle"))
	assert.True(t, ok)
	b, _ := MakeFH([]byte("handle"))
	longer, _ := MakeFH([]byte("handle\x00"))
	assert.True(t, a == b, "handles are compared as values")
	assert.False(t, a == longer)
	assert.Equal(t, 6, a.Len())
	assert.Equal(t, "handle", string(a.Bytes()))
	assert.Equal(t, "68616e646c65", a.String())
	_, ok = MakeFH(make([]byte, MaxFHLen+1))
	assert.False(t, ok)

	// What an earlier handle left must not show.
	v := GetattrArgs{Object: fh("a longer handle")}
	_, err := ConsumeGetattrArgs(AppendGetattrArgs(nil, &GetattrArgs{Object: a}), &v)
	assert.NoError(t, err)
	assert.True(t, v.Object == a)
}

func TestStatus(t *testing.T) {
	err := fmt.Errorf("lookup: %w", NFS3ERR_NOENT)
	assert.ErrorIs(t, err, NFS3ERR_NOENT)
	assert.NotErrorIs(t, err, NFS3ERR_STALE)
	assert.EqualError(t, err, "lookup: NFS3ERR_NOENT")
	var s Status
	assert.True(t, errors.As(err, &s))
	assert.Equal(t, "NFS3_OK", NFS3_OK.String())
	assert.Equal(t, "NFS3ERR(3)", Status(3).String())
}

func TestNames(t *testing.T) {
	assert.Equal(t, "NULL", NULL.String())
	assert.Equal(t, "COMMIT", COMMIT.String())
	assert.Equal(t, "PROC(22)", Proc(22).String())
	assert.Equal(t, "FIFO", NF3FIFO.String())
	assert.Equal(t, "FTYPE(0)", FType(0).String())
	assert.Equal(t, "UNSTABLE", UNSTABLE.String())
	assert.Equal(t, "STABLE_HOW(3)", StableHow(3).String())
	assert.Equal(t, "CREATEMODE(3)", CreateMode(3).String())
}

func TestIdempotent(t *testing.T) {
	var not []string
	for p := range Proc(NumProcs) {
		if !p.Idempotent() {
			not = append(not, p.String())
		}
	}
	assert.Equal(t, "[SETATTR CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK]", fmt.Sprint(not))
}

func TestFormat(t *testing.T) {
	read := &ReadArgs{File: fh("f"), Offset: 4096, Count: 8}
	b := AppendReadArgs(nil, read)
	assert.Equal(t, "READ file=66 offset=4096 count=8", FormatArgs(READ, b, true))
	assert.Equal(t, "READ file=66 offset=4096 count=8 trailing=2", FormatArgs(READ, append(b, 0, 0), false))
	assert.Equal(t, "READ bad: xdr: count at byte 16: input too short", FormatArgs(READ, b[:18], false))
	assert.Equal(t, "PROC(30) 20 bytes", FormatArgs(30, b, false))
	res := AppendReadResHead(nil, &ReadRes{Count: 8, EOF: true}, 8)
	assert.Equal(t, "READ NFS3_OK file_attributes=- count=8 eof=true data=0 reduced=8", FormatRes(READ, res, true))
}
