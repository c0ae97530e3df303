package wire

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/verbs"
)

// field is one thing that is compared. Names that begin with "call" and "args" are the client's doing, those
// that begin with "server", "reply" and "res" the server's.
type field struct{ name, value string }

// description is fields in the order of the wire.
type description []field

func (d *description) add(name, format string, args ...any) {
	*d = append(*d, field{name, fmt.Sprintf(format, args...)})
}

func (d description) get(name string) (string, bool) {
	i := slices.IndexFunc(d, func(f field) bool { return f.name == name })
	if i < 0 {
		return "", false
	}
	return d[i].value, true
}

func isClients(name string) bool {
	return strings.HasPrefix(name, "call.") || strings.HasPrefix(name, "args.") || strings.HasPrefix(name, "request.")
}

// describe gives the fields of an exchange. Handles, keys, addresses, XIDs, verifiers, times and what else
// must differ between two runs are left out or replaced by a word.
func describe(x *exchange) (description, error) {
	var d description
	c := &x.call
	d.header("call", c)
	d.add("call.message", "%s", division(&c.h, len(c.h.Reads) > 0))
	p, ok := x.proc()
	if !ok {
		return nil, fmt.Errorf("%s: not NFS", x.formatArgs())
	}
	d.add("call.rpc", "%d version %d %v", x.rpc.Prog, x.rpc.Vers, p)
	if err := d.cred(&x.rpc); err != nil {
		return nil, err
	}
	d.formatted("args", x.formatArgs())

	d.add("server.reads", "%s", transfers(x.reads))
	d.add("server.writes", "%s", transfers(x.writes))
	r := &x.reply
	d.header("reply", r)
	d.add("reply.message", "%s", division(&r.h, r.h.Writes.Len() > 0))
	if r.op == verbs.OpSendWithInv {
		own := slices.ContainsFunc(segments(&c.h), func(s rpcrdma.Segment) bool { return s.Handle == r.key })
		d.add("reply.key", "%s", map[bool]string{true: "of the call", false: "unknown"}[own])
	}
	var h rpc.Reply
	n, err := rpc.ConsumeReply(r.msg, &h)
	if err != nil {
		return nil, err
	}
	if !h.OK() {
		d.add("reply.rpc", "%v", strings.Join(strings.Fields(h.String())[2:], " "))
		return d, nil
	}
	d.add("reply.rpc", "SUCCESS verf=%v length %d", h.Verf.Flavor, len(h.Verf.Body))
	res := r.msg[n:]
	if p == nfs3.READDIRPLUS {
		return d, d.readdirplus(res)
	}
	d.formatted("res", nfs3.FormatRes(p, res, r.h.Writes.Len() > 0))
	return d, nil
}

// header describes the transport header and the RDMA operation that carried it.
func (d *description) header(who string, m *message) {
	h := &m.h
	d.add(who+".op", "%v", m.op)
	d.add(who+".proc", "%v", h.Proc)
	d.add(who+".vers", "%d", h.Vers)
	d.add(who+".credits", "%d", h.Credits)
	if len(h.Reads) == 0 {
		d.add(who+".reads", "none")
	} else {
		chunk, rest := rpcrdma.ReadChunk(h.Reads)
		var segs []rpcrdma.Segment
		for _, s := range chunk {
			segs = append(segs, s.Segment)
		}
		pos := fmt.Sprint(chunk[0].Position)
		if int(chunk[0].Position) == len(m.msg) {
			pos = "end of the message"
		}
		d.add(who+".reads", "%s, %d chunks more", pos, len(rest))
		d.chunk(who+".reads", segs)
	}
	d.add(who+".writes", "%s", chunks(h.Writes.Len()))
	for i := range h.Writes.Len() {
		d.chunk(who+".writes", h.Writes.Chunk(i))
	}
	if !h.HasReply {
		d.add(who+".reply", "none")
		return
	}
	d.add(who+".reply", "present")
	d.chunk(who+".reply", h.Reply)
}

func chunks(n int) string {
	switch n {
	case 0:
		return "none"
	case 1:
		return "1 chunk"
	}
	return fmt.Sprintf("%d chunks", n)
}

// chunk describes the segments of a chunk.
func (d *description) chunk(name string, segs []rpcrdma.Segment) {
	var lens []string
	keys := map[uint32]bool{}
	for _, s := range segs {
		lens = append(lens, fmt.Sprint(s.Length))
		keys[s.Handle] = true
	}
	d.add(name+".bytes", "%d", rpcrdma.ChunkLen(segs))
	d.add(name+".segments", "%s", strings.Join(lens, "+"))
	if len(keys) != len(segs) {
		d.add(name+".keys", "%d", len(keys))
	}
}

// division says what of the RPC message is in the SEND.
func division(h *rpcrdma.Header, reduced bool) string {
	switch {
	case h.Proc == rpcrdma.RDMA_NOMSG:
		return "in a chunk"
	case reduced:
		return "inline, reduced"
	}
	return "inline"
}

// transfers describes RDMA READs or WRITEs.
func transfers(e []event) string {
	if len(e) == 0 {
		return "none"
	}
	var n []string
	for i := range e {
		n = append(n, fmt.Sprint(e[i].n))
	}
	return strings.Join(n, "+")
}

func (d *description) cred(c *rpc.Call) error {
	cred := c.Cred.Flavor.String()
	if c.Cred.Flavor == rpc.AUTH_SYS {
		var sys rpc.AuthSys
		n, err := rpc.ConsumeAuthSys(c.Cred.Body, &sys)
		if err != nil {
			return err
		}
		cred += fmt.Sprintf(" uid=%d gid=%d gids=%v", sys.UID, sys.GID, sys.Groups())
		if n != len(c.Cred.Body) {
			cred += fmt.Sprintf(" and %d bytes", len(c.Cred.Body)-n)
		}
	}
	d.add("call.cred", "%s", cred)
	d.add("call.verf", "%v length %d", c.Verf.Flavor, len(c.Verf.Body))
	return nil
}

// isHandle has the names of fields that hold, or begin with, a file handle.
var isHandle = map[string]bool{"object": true, "obj": true, "fsroot": true, "file": true, "dir": true, "where": true,
	"what": true, "from": true, "to": true, "link": true, "symlink": true}

var (
	reHandle = regexp.MustCompile(`^[0-9a-f]{16,128}`)
	reTimes  = regexp.MustCompile(` (used|rdev|fsid|fileid|atime|mtime|ctime)=[^ }]*`)
	reDirLen = regexp.MustCompile(`(\{DIR[^}]*) size=\d+`)
	reBefore = regexp.MustCompile(`\{size=\d+[^}]*\}`)
)

// formatted describes a print of package nfs3, NAME [STATUS] key=value ...
func (d *description) formatted(prefix, text string) {
	words := fields(text)
	for _, w := range words[1:] {
		k, v, ok := strings.Cut(w, "=")
		switch {
		case !ok && prefix == "res":
			k, v = "status", w
		case !ok:
			k, v = "mode", w
		case k == "verf" || k == "cookieverf" || k == "createverf":
			v = strings.Map(func(r rune) rune {
				if r == '0' {
					return -1
				}
				return r
			}, v)
			v = map[bool]string{true: "zero", false: "set"}[v == ""]
		case k == "tbytes", k == "fbytes", k == "abytes", k == "tfiles", k == "ffiles", k == "afiles":
			v = "of the file system"
		case strings.HasPrefix(v, `"`) && len(v) > 40:
			v = fmt.Sprintf("%d bytes", len(v)-2)
		case k == "cookie":
			v = map[bool]string{true: "0", false: "of the last entry"}[v == "0"]
		case isHandle[k]:
			v = reHandle.ReplaceAllString(v, "FH")
		default:
			v = reTimes.ReplaceAllString(v, "")
			v = reDirLen.ReplaceAllString(v, "$1")
			v = reBefore.ReplaceAllString(v, "{}")
		}
		d.add(prefix+"."+k, "%s", v)
	}
}

// fields splits at spaces outside braces, brackets and quotes.
func fields(s string) []string {
	var out []string
	depth, quoted, start := 0, false, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ' ' && depth == 0:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// readdirplus describes a directory result by counts.
func (d *description) readdirplus(b []byte) error {
	var r nfs3.ReaddirplusRes
	n, err := nfs3.ConsumeReaddirplusRes(b, &r)
	if err != nil {
		return err
	}
	d.add("res.status", "%v", r.Status)
	d.add("res.dir_attributes", "%s", present(r.DirAttr.Present))
	d.add("res.cookieverf", "%s", map[bool]string{true: "zero", false: "set"}[r.Verf == nfs3.Verf{}])
	entries, attrs, handles, long, fh := 0, 0, 0, 0, 0
	var dots []string
	var e nfs3.EntryPlus
	for l := r.Entries; l.Next(&e); entries++ {
		if e.Attr.Present {
			attrs++
		}
		if e.FH.Present {
			handles++
			fh = max(fh, e.FH.FH.Len())
		}
		if e.Name[0] == '.' {
			dots = append(dots, string(e.Name))
		} else {
			long++
		}
	}
	d.add("res.entries", "%d", entries)
	d.add("res.entries.dots", "%s", strings.Join(dots, " "))
	d.add("res.entries.attributes", "%s", most(attrs, entries))
	d.add("res.entries.handles", "%s", most(handles, entries))
	d.add("res.entries.handle_bytes", "%d", fh)
	d.add("res.eof", "%t", r.EOF)
	if n != len(b) {
		d.add("res.trailing", "%d", len(b)-n)
	}
	return nil
}

func present(p bool) string { return map[bool]string{true: "present", false: "-"}[p] }

func most(n, of int) string {
	if n == of {
		return "all"
	}
	return fmt.Sprintf("all but %d", of-n)
}

// describe gives the fields of a connection. Which of them there are depends on the transport's connection manager.
func (c *connect) describe(iwarp bool) description {
	var d description
	one := func(who string, p *verbs.ConnParam) {
		b := p.PrivateData
		if len(b) >= rpcrdma.PrivateDataLen {
			d.add(who+".private", "%08x version %d flags %#x send size %d receive size %d", binary.BigEndian.Uint32(b), b[4], b[5], b[6], b[7])
			b = b[rpcrdma.PrivateDataLen:]
		}
		if xdr.Pad(len(b)) != 0 || strings.Trim(string(b), "\x00") != "" {
			d.add(who+".private.more", "%x", b)
		}
		d.add(who+".responder_resources", "%d", p.IRD)
		d.add(who+".initiator_depth", "%d", p.ORD)
	}
	one("request", &c.req)
	if !iwarp {
		d.add("request.retry_count", "%d", c.req.RetryCnt)
		d.add("request.rnr_retry_count", "%d", c.req.RNRRetry)
	}
	one("accept", &c.rep)
	if !iwarp {
		d.add("accept.rnr_retry_count", "%d", c.rep.RNRRetry)
	}
	return d
}
