package nfsserver

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
)

// What a call reserves is its READ count and a head; little for what has no data, and all there is for directories.
func TestReplySize(t *testing.T) {
	call := func(prog uint32, p nfs3.Proc, args []byte) []byte {
		return append(rpc.AppendCall(nil, &rpc.Call{XID: 1, Prog: prog, Vers: 3, Proc: uint32(p)}), args...)
	}
	fh, _ := nfs3.MakeFH([]byte("handle"))
	read := nfs3.AppendReadArgs(nil, &nfs3.ReadArgs{File: fh, Count: 1 << 20})
	huge := nfs3.AppendReadArgs(nil, &nfs3.ReadArgs{File: fh, Count: math.MaxUint32})
	assert.Equal(t, 1<<20+128, replySize(call(nfs3.Program, nfs3.READ, read)))
	assert.Positive(t, replySize(call(nfs3.Program, nfs3.READ, huge)))
	assert.Equal(t, 1024, replySize(call(nfs3.Program, nfs3.READ, read[:5])), "garbage")
	assert.Equal(t, 1024, replySize(call(nfs3.Program, nfs3.WRITE, nil)))
	assert.Equal(t, 1024, replySize(call(nfs3.Program+1, nfs3.READ, read)))
	assert.Equal(t, 1024, replySize(nil))
	assert.EqualValues(t, math.MaxInt32, replySize(call(nfs3.Program, nfs3.READDIRPLUS, nil)))
}
