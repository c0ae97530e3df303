package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// difference is a field that is not as Linux has it, on purpose.
type difference struct {
	cases       string // separated by semicolons
	field       string
	linux, ours string // "" if the field is not there
	why         string
}

const (
	links = "READLINK 5; READLINK 900; READLINK 4000"

	whyDepth = "On rxe Linux takes the 32 SGEs of a READ for the best length of a page list; we take the device's page list, " +
		"and so need one region, which the reply can invalidate."
	whyOneRegion  = "Our reply buffer is one piece of memory: one region, one key, which the reply can invalidate. Linux's is three."
	whyReplySize  = "Each counts its own longest RPC header and result; both suffice."
	whyCookieVerf = "Our server gives a verifier and wants it back; Linux's gives zero."
	whyReadlink   = "The target is DDP-eligible (RFC 8267 section 4): it comes into the caller's buffer by a Write chunk, with one region."
)

// clientDifferences are what our client sends otherwise.
var clientDifferences = []difference{
	{"WRITE 1 MiB, at 0; WRITE 1 MiB, at 786432", "call.reads.segments", "131072+131072", "262144", whyDepth},
	{"READ 1 MiB, at 0; READ 1 MiB, at 786432", "call.writes.segments", "131072+131072", "262144", whyDepth},
	{"READDIRPLUS, first", "call.reply.segments", "124+65536+4", "65668", whyOneRegion},
	{"READDIRPLUS, next", "call.reply.segments", "124+131072+4", "131204", whyOneRegion},
	{"READDIRPLUS, first", "call.reply.bytes", "65664", "65668", whyReplySize},
	{"READDIRPLUS, next", "call.reply.bytes", "131200", "131204", whyReplySize},
	{"READDIRPLUS, next", "args.cookieverf", "zero", "set", whyCookieVerf},
	{links, "call.reply", "present", "none", whyReadlink},
	{links, "call.reply.bytes", "4220", "", whyReadlink},
	{links, "call.reply.segments", "120+4096+4", "", whyReadlink},
	{links, "call.writes", "none", "1 chunk", whyReadlink},
	{links, "call.writes.bytes", "", "4096", whyReadlink},
	{links, "call.writes.segments", "", "4096", whyReadlink},
}

const (
	fivePages = "20480+20480+20480+20480+20480+20480+8192"

	whyPages     = "Linux's server has its data in pages, and over rxe puts five into a work request; our file systems lend larger pieces."
	whyWcc       = "Linux does not lock the file to look at it before a WRITE or COMMIT. Ours knows, and its client can tell the changes of others."
	whyAttrs     = "Optional; Linux's server leaves them out. They save a GETATTR."
	whyFS        = "A property of the exported file system."
	whyInline    = "A reply that fits is sent inline: one RDMA operation. Linux's server uses a Reply chunk whenever there is one (PreferReplyChunk does so too)."
	whyHandles   = "Our file handles are 24 bytes long, Linux's of tmpfs 20: fewer names fit the first result, and more are left."
	whyRFlag     = "The flag tells the client that it will see Send With Invalidate (RFC 8797). Linux's server uses that, and leaves the flag clear."
	whyRNR       = "Credits keep a receive posted for every call, so it does not matter to clients that keep to them; one that does not is held up rather than cut off."
	whyDirVerf   = "Our file systems' verifier tells a directory whose cookies no longer hold."
	whyTimeDelta = "Our file systems keep nanoseconds; so does tmpfs, of which Linux's server says a second."
	whyNoTrunc   = "Ours refuses names that are too long and never cuts them, which is what the field asks."
)

// serverDifferences are what our server does otherwise with the calls of Linux's client.
var serverDifferences = []difference{
	{"connection, RoCE; connection, iWARP", "accept.private", "f6ab0e18 version 1 flags 0x0 send size 3 receive size 3",
		"f6ab0e18 version 1 flags 0x1 send size 3 receive size 3", whyRFlag},
	{"connection, RoCE", "accept.rnr_retry_count", "0", "6", whyRNR},
	{"FSINFO; PATHCONF", "res.obj_attributes", "-", "{DIR mode=0777 nlink=3 uid=0 gid=0}", whyAttrs},
	{"FSSTAT", "res.obj_attributes", "-", "{DIR mode=0777 nlink=4 uid=0 gid=0}", whyAttrs},
	{"FSINFO", "res.maxfilesize", "9223372036854775807", "17592186044416", whyFS},
	{"FSINFO", "res.time_delta", "1.000000000", "0.000000001", whyTimeDelta},
	{"PATHCONF", "res.linkmax", "255", "65000", whyFS},
	{"PATHCONF", "res.no_trunc", "false", "true", whyNoTrunc},
	{"WRITE 3", "res.file_wcc", "->{REG mode=0644 nlink=1 uid=0 gid=0 size=3}", "{}>{REG mode=0644 nlink=1 uid=0 gid=0 size=3}", whyWcc},
	{"WRITE 2000", "res.file_wcc", "->{REG mode=0644 nlink=1 uid=0 gid=0 size=2000}", "{}>{REG mode=0644 nlink=1 uid=0 gid=0 size=2000}", whyWcc},
	{"WRITE 5000", "res.file_wcc", "->{REG mode=0644 nlink=1 uid=0 gid=0 size=5000}", "{}>{REG mode=0644 nlink=1 uid=0 gid=0 size=5000}", whyWcc},
	{"WRITE 65537", "res.file_wcc", "->{REG mode=0644 nlink=1 uid=0 gid=0 size=65537}", "{}>{REG mode=0644 nlink=1 uid=0 gid=0 size=65537}", whyWcc},
	{"WRITE 1 MiB, at 0; WRITE 1 MiB, at 786432; COMMIT", "res.file_wcc", "->{REG mode=0644 nlink=1 uid=0 gid=0 size=1048576}",
		"{}>{REG mode=0644 nlink=1 uid=0 gid=0 size=1048576}", whyWcc},
	{"WRITE 65537", "server.reads", "20480+20480+20480+4097", "65537", whyPages},
	{"WRITE 1 MiB, at 0; WRITE 1 MiB, at 786432", "server.reads", fivePages + "+" + fivePages, "131072+131072", whyPages},
	{"READ 65537, at 16384", "server.writes", "20480+12288", "32768", whyPages},
	{"READ 1 MiB, at 0; READ 1 MiB, at 786432", "server.writes", fivePages + "+" + fivePages, "131072+131072", whyPages},
	{"READDIRPLUS, first", "server.writes", "124+20480+20480+20480+3776+8", "124+65320", whyPages},
	{"READDIRPLUS, first", "reply.reply.bytes", "65348", "65444", whyHandles},
	{"READDIRPLUS, first", "reply.reply.segments", "124+65224+0", "124+65320+0", whyHandles},
	{"READDIRPLUS, first", "res.entries", "193", "191", whyHandles},
	{"READDIRPLUS, next", "server.writes", "124+20480+20480+20480+20480+20480+2660+8", "124+106992", whyPages},
	{"READDIRPLUS, next", "reply.reply.bytes", "105192", "107116", whyHandles},
	{"READDIRPLUS, next", "reply.reply.segments", "124+105068+0", "124+106992+0", whyHandles},
	{"READDIRPLUS, next", "res.entries", "309", "311", whyHandles},
	{"READDIRPLUS, first; READDIRPLUS, next", "res.entries.handle_bytes", "20", "24", whyHandles},
	{"READDIRPLUS, first; READDIRPLUS, next", "res.cookieverf", "zero", "set", whyDirVerf},
	{"READLINK 5; READLINK 900", "reply.proc", "RDMA_NOMSG", "RDMA_MSG", whyInline},
	{"READLINK 5; READLINK 900", "reply.message", "in a chunk", "inline", whyInline},
	{"READLINK 5", "reply.reply.segments", "120+8+0", "0+0+0", whyInline},
	{"READLINK 5", "reply.reply.bytes", "128", "0", whyInline},
	{"READLINK 5", "server.writes", "120+5+3", "none", whyInline},
	{"READLINK 900", "reply.reply.segments", "120+900+0", "0+0+0", whyInline},
	{"READLINK 900", "reply.reply.bytes", "1020", "0", whyInline},
	{"READLINK 900", "server.writes", "120+900", "none", whyInline},
}

// known are the differences that are expected.
type known struct {
	compared func(name, field string) bool
	left     map[[2]string]*difference // by case and field: not found yet
}

// newKnown takes those of list that compared wants.
func newKnown(t testing.TB, list []difference, compared func(name, field string) bool) *known {
	t.Helper()
	k := &known{compared, map[[2]string]*difference{}}
	for i := range list {
		d := &list[i]
		require.NotEmpty(t, d.why, d.field)
		require.NotEqual(t, d.linux, d.ours, d.field)
		for _, c := range strings.Split(d.cases, "; ") {
			at := [2]string{c, d.field}
			require.NotContains(t, k.left, at, "listed twice")
			if compared(c, d.field) {
				k.left[at] = d
			}
		}
	}
	return k
}

// compare compares the fields of a case.
func (k *known) compare(t testing.TB, name string, linux, ours description) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range slices.Concat(linux, ours) {
		if seen[f.name] || !k.compared(name, f.name) {
			continue
		}
		seen[f.name] = true
		want, _ := linux.get(f.name)
		got, _ := ours.get(f.name)
		at := [2]string{name, f.name}
		if d := k.left[at]; d != nil && d.linux == want && d.ours == got {
			delete(k.left, at)
			continue
		}
		assert.Equal(t, want, got, "%s: %s; Linux has the first", name, f.name)
	}
}

// wantAllSeen fails for differences that are there no more.
func (k *known) wantAllSeen(t testing.TB) {
	t.Helper()
	for at, d := range k.left {
		assert.Fail(t, "a listed difference is not there", "%s: %s: Linux %q, ours %q", at[0], at[1], d.linux, d.ours)
	}
}
