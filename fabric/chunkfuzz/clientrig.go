package chunkfuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// ClientRig is the client of this module in virtual time, and a Responder that answers it rightly or as an input says.
// One goroutine uses it.
type ClientRig struct {
	s    *sched.Sched
	net  *softroce.Network
	dev  [2]*softroce.Device // client, responder
	resp *Responder
	m    *nfsclient.Mount
	gen  Gen
	file nfs3.FH
	attr nfs3.Fattr3
	data []byte // of the file
	list nfs3.EntryList
	dead bool

	armed bool // the next call is answered as the input says
	call  *Call
	sent  []byte
	fate  Fate
	wrote []byte // of a WRITE
	dropd bool   // the connection ended in the answer
}

// ClientResult is a call and what became of it.
type ClientResult struct {
	Want Fate
	Got  Fate
	Call string // header of the call
	Sent []byte // the answer; nil if the call was not answered by the input
	Why  string // of a violation
	Err  error  // of the call
}

// Failure says what is wrong with a result, or nil.
func (r *ClientResult) Failure() error {
	switch {
	case r.Why != "":
	case r.Want == Either, r.Want == r.Got, r.Want == Ignore && r.Got == Taken:
		return nil
	}
	return fmt.Errorf("VIOLATION %s: got %v (%v), want %v\ncall %s\nanswer: %s", r.Why, r.Got, r.Err, r.Want, r.Call, Story(r.Sent))
}

const clientPayload = 64 << 10

// NewClientRig connects and mounts. Fields of cfg that are not set here are the client's own.
func NewClientRig(seed uint64, cfg nfsclient.Config) (r *ClientRig, err error) {
	r = &ClientRig{s: sched.NewVirtual(seed), data: pattern(clientPayload, 3)}
	defer func() {
		if err != nil {
			r.dead = true
			err = errors.Join(err, r.Close())
		}
	}()
	r.net = softroce.NewNetwork(r.s, softroce.NetConfig{})
	for i, name := range [...]string{"client", "server"} {
		if r.dev[i], err = r.net.NewDevice(name, softroce.RoCE); err != nil {
			return r, err
		}
	}
	r.file, _ = nfs3.MakeFH([]byte("chunkfuzz file"))
	r.attr = nfs3.Fattr3{Type: nfs3.NF3REG, Mode: 0o644, Nlink: 1, Size: 1 << 20, FileID: 7}
	for i := range 100 {
		r.list = nfs3.AppendEntry(r.list, &nfs3.Entry{FileID: uint64(i + 1), Name: fmt.Appendf(nil, "entry%04d", i), Cookie: uint64(i + 1)})
	}
	const addr = "server:20049"
	if r.resp, err = NewResponder(ResponderConfig{Device: r.dev[1], Addr: addr, Sched: r.s, Serve: r.serve, Recvs: 16}); err != nil {
		return r, err
	}
	cfg.Device, cfg.Sched, cfg.Addr, cfg.Soft = r.dev[0], r.s, addr, true
	if cfg.Credits == 0 {
		cfg.Credits = 4
	}
	if cfg.MaxDataSegs == 0 {
		cfg.MaxDataSegs = 17
	}
	cfg.Timeout, cfg.Retrans = time.Minute, 3
	r.m, err = nfsclient.New(context.Background(), cfg)
	return r, err
}

// Try makes a call, answers it as the input says, and then rightly unless that ended it.
func (r *ClientRig) Try(in []byte) (res *ClientResult, err error) {
	g := &r.gen
	g.in = in
	r.armed, r.call, r.sent, r.dropd = true, nil, nil, false
	res = &ClientResult{}
	defer func() {
		if p := recover(); p != nil {
			r.dead = true
			res.Why = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
			err = errors.New(res.Why)
		}
	}()
	res.Why, res.Err = r.do()
	res.Want, res.Sent = r.fate, r.sent
	if r.call != nil {
		res.Call = r.call.Header.String()
	}
	switch {
	case r.armed && errors.Is(res.Err, nfsclient.ErrMarshal): // too long for the mode: nothing was sent
		res.Want, res.Got = Failed, Failed
	case r.armed:
		return res, fmt.Errorf("chunkfuzz: no call came: %w", res.Err)
	case res.Err != nil:
		res.Got = Failed
		if errors.Is(res.Err, nfsclient.ErrTimedOut) || sched.Ended(res.Err) {
			res.Why = "the call hangs: " + res.Err.Error()
		}
	}
	if res.Why == "" && r.call != nil && g.odd(32) == 1 {
		res.Why = r.reach()
	}
	if res.Failure() != nil {
		r.dead = true
	}
	return res, nil
}

// do makes a call; wrong says what is wrong with results that it gives.
func (r *ClientRig) do() (wrong string, err error) {
	ctx := context.Background()
	g := &r.gen
	n := pick(g, 5000, 0, 1, 3, 4, 100, 1000, 3000, 4096, 4097, 8192, 20_001, clientPayload)
	switch g.byte() % 8 {
	case 0, 1, 2:
		off := uint64(g.byte() % 16)
		n = min(n, clientPayload-16)
		const guard = 64
		buf := bytes.Repeat([]byte{0xa5}, guard+n+guard)
		got, _, err := r.m.Read(ctx, r.file, off, buf[guard:guard+n:guard+n])
		switch {
		case !bytes.Equal(buf[:guard], bytes.Repeat([]byte{0xa5}, guard)), !bytes.Equal(buf[guard+n:], bytes.Repeat([]byte{0xa5}, guard)):
			return "memory beside the buffer was written", err
		case err == nil && r.fate != Either && (got != n || !bytes.Equal(buf[guard:guard+n], r.data[off:int(off)+n])):
			return fmt.Sprintf("wrong data in %d bytes", got), nil
		}
		return "", err
	case 3, 4:
		r.wrote = nil
		w, err := r.m.Write(ctx, r.file, 0, r.data[:n], nfs3.FILE_SYNC)
		if err == nil && r.fate != Either && (w.Count != n || !bytes.Equal(r.wrote, r.data[:n])) {
			return fmt.Sprintf("WRITE of %d bytes, the server had %d", w.Count, len(r.wrote)), nil
		}
		return "", err
	case 5:
		l, err := r.m.ReadDir(ctx, r.file, 0, nfs3.Verf{}, 8192)
		if err == nil && r.fate != Either && !bytes.Equal(l.Entries, r.list) {
			return "wrong entries", nil
		}
		return "", err
	case 6:
		s, err := r.m.ReadLink(ctx, r.file)
		if err == nil && r.fate != Either && s != linkTarget {
			return "wrong target " + s, nil
		}
		return "", err
	}
	a, err := r.m.GetAttr(ctx, r.file)
	if err == nil && r.fate != Either && a != r.attr {
		return "wrong attributes", nil
	}
	return "", err
}

const linkTarget = "somewhere/else/not a whole word"

// reach tries to write to memory of a call that is over (RFC 8166 section 4.4.1).
func (r *ClientRig) reach() string {
	k := r.call
	var list []Segment
	for i := range k.Header.Writes.Len() {
		list = append(list, k.Header.Writes.Chunk(i)...)
	}
	list = append(list, k.Header.Reply...)
	if len(list) == 0 {
		return ""
	}
	s := list[int(r.gen.byte())%len(list)]
	if s.Length == 0 {
		return ""
	}
	if k.Store(s, make([]byte, min(s.Length, 64))) == nil {
		return fmt.Sprintf("segment %v can be written after the end of the call", s)
	}
	k.Disconnect()
	return ""
}

// serve answers a call: rightly, or first as the input says.
func (r *ClientRig) serve(k *Call) {
	var c rpc.Call
	n, err := rpc.ConsumeCall(k.Msg, &c)
	if err != nil {
		return
	}
	h, msg, item := r.legal(k, &c, k.Msg[n:])
	if h == nil {
		return
	}
	right := append(rpcrdma.AppendHeader(nil, h), msg...)
	if h.Proc == rpcrdma.RDMA_NOMSG {
		right = right[:len(right)-len(msg)]
	}
	if r.armed {
		r.armed, r.call = false, k
		inline := msg
		if h.Proc == rpcrdma.RDMA_NOMSG {
			inline = nil
		}
		b, key, inv := r.gen.spoil(k, h, inline)
		b = b[:min(len(b), 4096)]
		r.sent, r.fate = b, fate(k, b, msg, inv, key, item)
		if inv {
			err = k.SendInv(b, key)
		} else {
			err = k.Send(b)
		}
		if err != nil {
			return
		}
	}
	_ = k.Send(right) // memory is not touched again: the call may be over
}

// legal makes the right answer, and puts what is in chunks there. item is the length of a data item in a Write chunk, or -1.
func (r *ClientRig) legal(k *Call, c *rpc.Call, args []byte) (h *Header, msg []byte, item int) {
	h = k.Answer()
	msg = rpc.AppendReplySuccess(nil, c.XID)
	item = -1
	post := nfs3.PostOpAttr{Present: true, Attr: r.attr}
	var data []byte
	isItem := false
	if c.Prog == mount3.Program {
		if c.Proc == 1 {
			msg = mount3.AppendMntRes(msg, &mount3.MntRes{FH: r.file, Flavors: []rpc.Flavor{rpc.AUTH_SYS}})
		}
	} else {
		switch nfs3.Proc(c.Proc) {
		case nfs3.FSINFO:
			msg = nfs3.AppendFsinfoRes(msg, &nfs3.FsinfoRes{ObjAttr: post, RtMax: clientPayload, RtPref: clientPayload, RtMult: 1,
				WtMax: clientPayload, WtPref: clientPayload, WtMult: 1, DtPref: 8192, MaxFileSize: 1 << 40})
		case nfs3.GETATTR:
			msg = nfs3.AppendGetattrRes(msg, &nfs3.GetattrRes{Attr: r.attr})
		case nfs3.READ:
			var a nfs3.ReadArgs
			if _, err := nfs3.ConsumeReadArgs(args, &a); err != nil {
				return nil, nil, 0
			}
			data, isItem = r.data[a.Offset:a.Offset+uint64(a.Count)], true
			msg = nfs3.AppendReadResHead(msg, &nfs3.ReadRes{Attr: post, Count: a.Count}, a.Count)
		case nfs3.READLINK:
			data, isItem = []byte(linkTarget), true
			msg = nfs3.AppendReadlinkResHead(msg, &nfs3.ReadlinkRes{Attr: post}, uint32(len(data)))
		case nfs3.READDIR:
			msg = nfs3.AppendReaddirRes(msg, &nfs3.ReaddirRes{DirAttr: post, Entries: r.list, EOF: true})
		case nfs3.WRITE:
			var a nfs3.WriteArgs
			n, _, err := nfs3.ConsumeWriteArgsHead(args, &a)
			if err != nil {
				return nil, nil, 0
			}
			if r.wrote, err = r.written(k, args, n); err != nil {
				return nil, nil, 0
			}
			msg = nfs3.AppendWriteRes(msg, &nfs3.WriteRes{Count: n, Committed: nfs3.FILE_SYNC})
		}
	}
	switch {
	case isItem && h.Writes.Len() > 0:
		if item = len(data); k.Fill(h.Writes.Chunk(0), data) != nil {
			return nil, nil, 0
		}
	case isItem:
		msg = append(append(msg, data...), 0, 0, 0)[:len(msg)+(len(data)+3)/4*4]
	}
	if !isItem && h.Writes.Len() > 0 {
		for i, segs := 0, h.Writes.Chunk(0); i < len(segs); i++ {
			segs[i].Length = 0
		}
	}
	if rpcrdma.HeaderLen(h)+len(msg) > 4096 {
		h.Proc = rpcrdma.RDMA_NOMSG
		if k.Fill(h.Reply, msg) != nil {
			return nil, nil, 0
		}
		return h, msg, item
	}
	for i := range h.Reply {
		h.Reply[i].Length = 0
	}
	return h, msg, item
}

// written is the data of a WRITE.
func (r *ClientRig) written(k *Call, args []byte, n uint32) ([]byte, error) {
	if len(k.Header.Reads) == 0 {
		var a nfs3.WriteArgs
		_, err := nfs3.ConsumeWriteArgs(args, &a)
		return append([]byte(nil), a.Data...), err
	}
	var out []byte
	for _, s := range k.Header.Reads {
		b, err := k.Fetch(s.Segment)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out[:min(len(out), int(n))], nil
}

// Fingerprint is a hash over all that has happened in virtual time.
func (r *ClientRig) Fingerprint() uint64 { return r.s.Fingerprint() }

// Close takes all down and says what is left over.
func (r *ClientRig) Close() error {
	var errs []error
	if r.m != nil {
		errs = append(errs, r.m.Close())
	}
	if r.resp != nil {
		errs = append(errs, r.resp.Close())
	}
	for _, d := range r.dev {
		if d == nil {
			continue
		}
		if left := d.Resources(); left != (verbs.Resources{}) {
			errs = append(errs, fmt.Errorf("left on device %s: %+v", d.Name(), left))
		}
		errs = append(errs, d.Close())
	}
	errs = append(errs, r.net.Close())
	if t := r.s.Tasks(); len(t) > 0 {
		errs = append(errs, errors.New("tasks left: "+strings.Join(t, ", ")))
	}
	errs = append(errs, r.s.Close())
	if r.dead {
		return nil
	}
	return errors.Join(errs...)
}
