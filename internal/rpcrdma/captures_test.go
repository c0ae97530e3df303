package rpcrdma_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
)

var (
	captures = flag.String("captures", "testdata/linux.txt", "file with the captured messages to check")
	rewrite  = flag.Bool("rewrite", false, "write the prints into the file of captured messages")
)

// TestCaptures takes messages between a Linux client and a Linux server apart, prints them, and puts
// them together again to the same bytes. In the file a line of hex is a message, > from the client
// and < from the server; + is what the server wrote into the Reply chunk of the message before; the
// line = behind it is its print; # is a comment.
func TestCaptures(t *testing.T) {
	var out bytes.Buffer
	var p peeler
	messages := 0
	text := ""
	for _, line := range readLines(t, *captures) {
		tag, rest, _ := strings.Cut(line, " ")
		switch tag {
		case ">", "<", "+":
			msg, err := hex.DecodeString(rest)
			require.NoError(t, err)
			if tag == "+" {
				text = p.peelChunk(t, msg)
			} else {
				messages++
				text = p.peel(t, msg, tag == ">")
			}
			fmt.Fprintf(&out, "%s\n= %s\n", line, text)
		case "=":
			if !*rewrite {
				assert.Equal(t, rest, text)
			}
		default:
			fmt.Fprintln(&out, line)
		}
	}
	require.NotZero(t, messages)
	t.Logf("%d messages, of them %v", messages, p.seen)
	if *rewrite {
		require.NoError(t, os.WriteFile(*captures, out.Bytes(), 0o644))
	}
}

func readLines(t testing.TB, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	require.NoError(t, s.Err())
	return lines
}

// peeler goes through a conversation: a reply is understood by its call.
type peeler struct {
	h     rpcrdma.Header
	calls map[uint32]rpc.Call
	asked map[uint32]uint32 // XID to what a directory reply may measure
	seen  map[string]int
}

// peel decodes each layer of msg, wants its encoding to be what it came from, and gives the print.
func (p *peeler) peel(t *testing.T, msg []byte, call bool) string {
	t.Helper()
	h := &p.h
	n, err := rpcrdma.ConsumeHeader(msg, h, 0)
	require.NoError(t, err)
	wantBytes(t, msg[:n], rpcrdma.AppendHeader(nil, h))
	require.Equal(t, n, rpcrdma.HeaderLen(h))
	if p.calls == nil {
		p.calls, p.asked, p.seen = map[uint32]rpc.Call{}, map[uint32]uint32{}, map[string]int{}
	}
	p.seen[h.Proc.String()]++
	body := msg[n:]
	if h.Proc == rpcrdma.RDMA_NOMSG {
		require.Empty(t, body)
		return h.String()
	}
	require.Equal(t, rpcrdma.RDMA_MSG, h.Proc)
	if call {
		return p.peelCall(t, body)
	}
	return p.peelReply(t, body)
}

// peelChunk takes the payload of a Reply chunk apart.
func (p *peeler) peelChunk(t *testing.T, body []byte) string {
	t.Helper()
	require.Equal(t, rpcrdma.RDMA_NOMSG, p.h.Proc)
	require.EqualValues(t, rpcrdma.ChunkLen(p.h.Reply), len(body), "C27")
	return p.peelReply(t, body)
}

func (p *peeler) peelCall(t *testing.T, body []byte) string {
	t.Helper()
	var c rpc.Call
	n, err := rpc.ConsumeCall(body, &c)
	require.NoError(t, err)
	wantBytes(t, body[:n], rpc.AppendCall(nil, &c))
	require.Equal(t, n, rpc.CallLen(&c))
	require.Equal(t, p.h.XID, c.XID, "C18")
	if c.Cred.Flavor == rpc.AUTH_SYS {
		var sys rpc.AuthSys
		m, err := rpc.ConsumeAuthSys(c.Cred.Body, &sys)
		require.NoError(t, err)
		require.Equal(t, len(c.Cred.Body), m)
		wantBytes(t, c.Cred.Body, rpc.AppendAuthSys(nil, &sys))
	}
	p.calls[c.XID] = c
	for _, s := range p.h.Reads {
		require.EqualValues(t, len(body), s.Position, "the item would stand behind the inline part")
	}
	line := fmt.Sprintf("%v | %v", &p.h, &c)
	if c.Prog != nfs3.Program {
		return line // NFSACL
	}
	args := body[n:]
	proc := nfs3.Proc(c.Proc)
	p.seen[proc.String()]++
	reduced := len(p.h.Reads) > 0
	wantBytes(t, args, recodeArgs(t, proc, args, reduced))
	switch proc {
	case nfs3.READDIR, nfs3.READDIRPLUS:
		p.asked[c.XID] = binary.BigEndian.Uint32(args[len(args)-4:]) // count or maxcount
	}
	return line + " | " + nfs3.FormatArgs(proc, args, reduced)
}

func (p *peeler) peelReply(t *testing.T, body []byte) string {
	t.Helper()
	var r rpc.Reply
	n, err := rpc.ConsumeReply(body, &r)
	require.NoError(t, err)
	wantBytes(t, body[:n], rpc.AppendReply(nil, &r))
	require.Equal(t, p.h.XID, r.XID, "C18")
	line := r.String()
	if p.h.Proc == rpcrdma.RDMA_MSG {
		line = fmt.Sprintf("%v | %v", &p.h, &r)
	}
	c, ok := p.calls[r.XID]
	require.True(t, ok, "a reply without a call")
	if c.Prog != nfs3.Program || !r.OK() {
		return line
	}
	wantBytes(t, body[:n], rpc.AppendReplySuccess(nil, r.XID))
	res := body[n:]
	proc := nfs3.Proc(c.Proc)
	reduced := p.h.Writes.Len() > 0
	wantBytes(t, res, recodeRes(t, proc, res, reduced))
	if reduced || !proc.ResEligible() {
		require.LessOrEqual(t, len(res), nfs3.MaxReplyLen(proc, p.asked[r.XID]), "C26")
	}
	return line + " | " + nfs3.FormatRes(proc, res, reduced)
}

func wantBytes(t *testing.T, want, got []byte) {
	t.Helper()
	require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
}

// recode decodes b as a T and encodes that again.
func recode[T any](t *testing.T, b []byte, consume func([]byte, *T) (int, error), add func([]byte, *T) []byte) []byte {
	t.Helper()
	var v T
	n, err := consume(b, &v)
	require.NoError(t, err)
	require.Equal(t, len(b), n, "bytes left over")
	return add(nil, &v)
}

// recodeHead is recode for a message whose last item is in a chunk.
func recodeHead[T any](t *testing.T, b []byte, consume func([]byte, *T) (uint32, int, error), add func([]byte, *T, uint32) []byte) []byte {
	t.Helper()
	var v T
	dataLen, n, err := consume(b, &v)
	require.NoError(t, err)
	require.Equal(t, len(b), n, "bytes left over")
	return add(nil, &v, dataLen)
}

func recodeArgs(t *testing.T, p nfs3.Proc, b []byte, reduced bool) []byte {
	t.Helper()
	switch {
	case reduced && p == nfs3.WRITE:
		return recodeHead(t, b, nfs3.ConsumeWriteArgsHead, nfs3.AppendWriteArgsHead)
	case reduced && p == nfs3.SYMLINK:
		return recodeHead(t, b, nfs3.ConsumeSymlinkArgsHead, nfs3.AppendSymlinkArgsHead)
	}
	switch p {
	case nfs3.NULL:
		return recode(t, b, nfs3.ConsumeNullArgs, nfs3.AppendNullArgs)
	case nfs3.GETATTR:
		return recode(t, b, nfs3.ConsumeGetattrArgs, nfs3.AppendGetattrArgs)
	case nfs3.SETATTR:
		return recode(t, b, nfs3.ConsumeSetattrArgs, nfs3.AppendSetattrArgs)
	case nfs3.LOOKUP:
		return recode(t, b, nfs3.ConsumeLookupArgs, nfs3.AppendLookupArgs)
	case nfs3.ACCESS:
		return recode(t, b, nfs3.ConsumeAccessArgs, nfs3.AppendAccessArgs)
	case nfs3.READLINK:
		return recode(t, b, nfs3.ConsumeReadlinkArgs, nfs3.AppendReadlinkArgs)
	case nfs3.READ:
		return recode(t, b, nfs3.ConsumeReadArgs, nfs3.AppendReadArgs)
	case nfs3.WRITE:
		return recode(t, b, nfs3.ConsumeWriteArgs, nfs3.AppendWriteArgs)
	case nfs3.CREATE:
		return recode(t, b, nfs3.ConsumeCreateArgs, nfs3.AppendCreateArgs)
	case nfs3.MKDIR:
		return recode(t, b, nfs3.ConsumeMkdirArgs, nfs3.AppendMkdirArgs)
	case nfs3.SYMLINK:
		return recode(t, b, nfs3.ConsumeSymlinkArgs, nfs3.AppendSymlinkArgs)
	case nfs3.REMOVE:
		return recode(t, b, nfs3.ConsumeRemoveArgs, nfs3.AppendRemoveArgs)
	case nfs3.RMDIR:
		return recode(t, b, nfs3.ConsumeRmdirArgs, nfs3.AppendRmdirArgs)
	case nfs3.RENAME:
		return recode(t, b, nfs3.ConsumeRenameArgs, nfs3.AppendRenameArgs)
	case nfs3.LINK:
		return recode(t, b, nfs3.ConsumeLinkArgs, nfs3.AppendLinkArgs)
	case nfs3.READDIR:
		return recode(t, b, nfs3.ConsumeReaddirArgs, nfs3.AppendReaddirArgs)
	case nfs3.READDIRPLUS:
		return recode(t, b, nfs3.ConsumeReaddirplusArgs, nfs3.AppendReaddirplusArgs)
	case nfs3.FSSTAT:
		return recode(t, b, nfs3.ConsumeFsstatArgs, nfs3.AppendFsstatArgs)
	case nfs3.FSINFO:
		return recode(t, b, nfs3.ConsumeFsinfoArgs, nfs3.AppendFsinfoArgs)
	case nfs3.PATHCONF:
		return recode(t, b, nfs3.ConsumePathconfArgs, nfs3.AppendPathconfArgs)
	case nfs3.COMMIT:
		return recode(t, b, nfs3.ConsumeCommitArgs, nfs3.AppendCommitArgs)
	}
	t.Fatalf("no codec for %v", p)
	return nil
}

func recodeRes(t *testing.T, p nfs3.Proc, b []byte, reduced bool) []byte {
	t.Helper()
	switch {
	case reduced && p == nfs3.READ:
		return recodeHead(t, b, nfs3.ConsumeReadResHead, nfs3.AppendReadResHead)
	case reduced && p == nfs3.READLINK:
		return recodeHead(t, b, nfs3.ConsumeReadlinkResHead, nfs3.AppendReadlinkResHead)
	}
	switch p {
	case nfs3.NULL:
		return recode(t, b, nfs3.ConsumeNullRes, nfs3.AppendNullRes)
	case nfs3.GETATTR:
		return recode(t, b, nfs3.ConsumeGetattrRes, nfs3.AppendGetattrRes)
	case nfs3.SETATTR:
		return recode(t, b, nfs3.ConsumeSetattrRes, nfs3.AppendSetattrRes)
	case nfs3.LOOKUP:
		return recode(t, b, nfs3.ConsumeLookupRes, nfs3.AppendLookupRes)
	case nfs3.ACCESS:
		return recode(t, b, nfs3.ConsumeAccessRes, nfs3.AppendAccessRes)
	case nfs3.READLINK:
		return recode(t, b, nfs3.ConsumeReadlinkRes, nfs3.AppendReadlinkRes)
	case nfs3.READ:
		return recode(t, b, nfs3.ConsumeReadRes, nfs3.AppendReadRes)
	case nfs3.WRITE:
		return recode(t, b, nfs3.ConsumeWriteRes, nfs3.AppendWriteRes)
	case nfs3.CREATE:
		return recode(t, b, nfs3.ConsumeCreateRes, nfs3.AppendCreateRes)
	case nfs3.MKDIR:
		return recode(t, b, nfs3.ConsumeMkdirRes, nfs3.AppendMkdirRes)
	case nfs3.SYMLINK:
		return recode(t, b, nfs3.ConsumeSymlinkRes, nfs3.AppendSymlinkRes)
	case nfs3.REMOVE:
		return recode(t, b, nfs3.ConsumeRemoveRes, nfs3.AppendRemoveRes)
	case nfs3.RMDIR:
		return recode(t, b, nfs3.ConsumeRmdirRes, nfs3.AppendRmdirRes)
	case nfs3.RENAME:
		return recode(t, b, nfs3.ConsumeRenameRes, nfs3.AppendRenameRes)
	case nfs3.LINK:
		return recode(t, b, nfs3.ConsumeLinkRes, nfs3.AppendLinkRes)
	case nfs3.READDIR:
		return recode(t, b, nfs3.ConsumeReaddirRes, nfs3.AppendReaddirRes)
	case nfs3.READDIRPLUS:
		return recode(t, b, nfs3.ConsumeReaddirplusRes, nfs3.AppendReaddirplusRes)
	case nfs3.FSSTAT:
		return recode(t, b, nfs3.ConsumeFsstatRes, nfs3.AppendFsstatRes)
	case nfs3.FSINFO:
		return recode(t, b, nfs3.ConsumeFsinfoRes, nfs3.AppendFsinfoRes)
	case nfs3.PATHCONF:
		return recode(t, b, nfs3.ConsumePathconfRes, nfs3.AppendPathconfRes)
	case nfs3.COMMIT:
		return recode(t, b, nfs3.ConsumeCommitRes, nfs3.AppendCommitRes)
	}
	t.Fatalf("no codec for %v", p)
	return nil
}
