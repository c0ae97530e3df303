package chunkfuzz

import (
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
)

// Files that a session makes in the directory it is given.
const (
	dataName    = "chunkfuzz.data"
	scratchName = "chunkfuzz.scratch"
	linkName    = "chunkfuzz.link"
	dirName     = "chunkfuzz.dir"
	dataSize    = 60_001
	scratchSize = 70_000
	numEntries  = 60
)

// Session is a requester with what it knows of its server. One goroutine uses it.
type Session struct {
	Req *Requester
	Srv *Server
	Now uint64 // exchanges so far

	Careful bool // messages that end the machine of a known server are not sent: see Deadly

	oracle Oracle
	gen    Gen
	answer answer
	long   []byte
	auth   rpc.Auth
	sent   []byte
	// overwritten: what the last answer wrote to the Reply chunk may have gone over the result in the Write chunk.
	overwritten bool
	strict      bool // the server leaves alone what it does not use of a chunk
}

// NewSession prepares the files of a session over the requester, in the root directory of export, or in the directory of
// the handle root if that is not nil.
func NewSession(ctx context.Context, q *Requester, export string, root []byte) (*Session, error) {
	s := &Session{Req: q, Srv: &Server{Root: root, plain: map[uint32]call{}}}
	s.auth = rpc.Auth{Flavor: rpc.AUTH_SYS, Body: rpc.AppendAuthSys(nil, &rpc.AuthSys{Machine: []byte("fuzz")})}
	s.Srv.auth = s.auth.Body
	s.Srv.Inline = q.cfg.Inline
	if p, _ := rpcrdma.ConsumePrivateData(q.ServerPrivate()); p.SendSize < s.Srv.Inline {
		s.Srv.Inline = p.SendSize
	}
	if err := s.prepare(ctx, export); err != nil {
		return nil, fmt.Errorf("chunkfuzz: preparing the server: %w", err)
	}
	s.oracle = Oracle{Srv: s.Srv, Mem: q.Memory}
	s.gen = Gen{s: s}
	q.resync()
	return s, nil
}

// plain makes a call in the ordinary way and gives its results.
func (s *Session) plain(ctx context.Context, prog, proc uint32, args []byte) ([]byte, error) {
	return s.plainVersion(ctx, prog, 3, proc, args)
}

func (s *Session) plainVersion(ctx context.Context, prog, vers, proc uint32, args []byte) ([]byte, error) {
	h := Header{}
	h.Reset()
	h.XID, h.Credits = s.Req.NextXID(), 8
	h.HasReply = true
	h.Reply = append(h.Reply, s.Req.Seg(Sink, 0, regionSize[Sink]))
	b := rpc.AppendCall(rpcrdma.AppendHeader(nil, &h), &rpc.Call{XID: h.XID, Prog: prog, Vers: vers, Proc: proc, Cred: s.auth})
	return s.ask(ctx, &h, append(b, args...))
}

// ask sends a call and gives the results, which may come in a Reply chunk at the beginning of Sink.
func (s *Session) ask(ctx context.Context, h *Header, msg []byte) ([]byte, error) {
	if err := s.Req.Send(msg); err != nil {
		return nil, err
	}
	for range 20 {
		m, ok, err := s.Req.Next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		a := &s.answer
		if !a.read(m.Bytes) || a.xid != h.XID {
			return nil, fmt.Errorf("an ordinary call was answered with %x", m.Bytes)
		}
		if a.proc == 4 {
			return nil, fmt.Errorf("an ordinary call was answered with RDMA_ERROR %d", a.code)
		}
		msg := a.msg
		if a.proc == 1 {
			msg = s.Req.Bytes(Sink)[:total(a.l.reply)]
		}
		var rep rpc.Reply
		n, err := rpc.ConsumeReply(msg, &rep)
		if err != nil || !rep.OK() {
			return nil, fmt.Errorf("an ordinary call: %v, %w", &rep, errors.Join(err, errRefused))
		}
		return append([]byte(nil), msg[n:]...), nil
	}
	return nil, errNoAnswer
}

// hasVersion asks for a version of the NFS program.
func (s *Session) hasVersion(ctx context.Context, vers uint32) bool {
	_, err := s.plainVersion(ctx, nfs3.Program, vers, 0, nil)
	return err == nil
}

var errRefused = errors.New("not a success")

func askNFS[A, R any](ctx context.Context, s *Session, proc nfs3.Proc, add func([]byte, *A) []byte, a *A, consume func([]byte, *R) (int, error)) (r R, err error) {
	b, err := s.plain(ctx, nfs3.Program, uint32(proc), add(nil, a))
	if err == nil {
		_, err = consume(b, &r)
	}
	return r, err
}

func (s *Session) prepare(ctx context.Context, export string) error {
	v := s.Srv
	if v.Root == nil {
		b, err := s.plain(ctx, mount3.Program, 1, mount3.AppendPathArgs(nil, &mount3.PathArgs{Path: []byte(export)}))
		if err != nil {
			return fmt.Errorf("MNT %s: %w", export, err)
		}
		var res mount3.MntRes
		if _, err := mount3.ConsumeMntRes(b, &res); err != nil || res.Status != mount3.MNT3_OK {
			return fmt.Errorf("MNT %s: %v %w", export, &res, errors.Join(err, errRefused))
		}
		v.Root = res.FH.Bytes()
	}
	root, _ := nfs3.MakeFH(v.Root)
	v.Root = append([]byte(nil), v.Root...)
	info, err := askNFS(ctx, s, nfs3.FSINFO, nfs3.AppendFsinfoArgs, &nfs3.FsinfoArgs{Root: root}, nfs3.ConsumeFsinfoRes)
	if err != nil || info.Status != nfs3.NFS3_OK {
		return fmt.Errorf("FSINFO: %v %w", info.Status, errors.Join(err, errRefused))
	}
	v.MaxPayload = min(info.RtMax, info.WtMax)
	v.contents, v.scratch = pattern(dataSize, 1), pattern(scratchSize, 2)
	if v.Data, err = s.file(ctx, root, dataName, v.contents); err != nil {
		return err
	}
	if v.Scratch, err = s.file(ctx, root, scratchName, v.scratch); err != nil {
		return err
	}
	v.target = []byte("some/where/else/that/is/not/a/whole/word")[:38]
	if err := s.links(ctx, root); err != nil {
		return err
	}
	s.Srv.others = s.hasVersion(ctx, 4)
	return s.learn(ctx, root)
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7+i>>8*13) + seed
	}
	return b
}

func (s *Session) file(ctx context.Context, root nfs3.FH, name string, data []byte) ([]byte, error) {
	at := nfs3.DirOp{Dir: root, Name: []byte(name)}
	r, err := askNFS(ctx, s, nfs3.CREATE, nfs3.AppendCreateArgs, &nfs3.CreateArgs{Where: at, Attr: nfs3.Sattr3{SetMode: true, Mode: 0o666}}, nfs3.ConsumeCreateRes)
	if err != nil || r.Status != nfs3.NFS3_OK {
		return nil, fmt.Errorf("CREATE %s: %v %w", name, r.Status, errors.Join(err, errRefused))
	}
	if err := s.store(ctx, r.Object.FH, data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return append([]byte(nil), r.Object.FH.Bytes()...), nil
}

// store writes data to a file in the ordinary way.
func (s *Session) store(ctx context.Context, fh nfs3.FH, data []byte) error {
	for off := 0; off < len(data); off += 512 {
		part := data[off:min(off+512, len(data))]
		w, err := askNFS(ctx, s, nfs3.WRITE, nfs3.AppendWriteArgs, &nfs3.WriteArgs{File: fh, Offset: uint64(off), Count: uint32(len(part)), Data: part}, nfs3.ConsumeWriteRes)
		if err != nil || w.Status != nfs3.NFS3_OK || int(w.Count) != len(part) {
			return fmt.Errorf("WRITE: %v %w", w.Status, errors.Join(err, errRefused))
		}
	}
	return nil
}

func (s *Session) symlinkArgs(root nfs3.FH) []byte {
	return nfs3.AppendSymlinkArgs(nil, &nfs3.SymlinkArgs{Where: nfs3.DirOp{Dir: root, Name: []byte(linkName)}, Path: s.Srv.target})
}

func (s *Session) links(ctx context.Context, root nfs3.FH) error {
	v := s.Srv
	if _, err := s.plain(ctx, nfs3.Program, procSym, s.symlinkArgs(root)); err != nil {
		return fmt.Errorf("SYMLINK: %w", err)
	}
	look := func(name string) ([]byte, error) {
		r, err := askNFS(ctx, s, nfs3.LOOKUP, nfs3.AppendLookupArgs, &nfs3.LookupArgs{What: nfs3.DirOp{Dir: root, Name: []byte(name)}}, nfs3.ConsumeLookupRes)
		if err != nil || r.Status != nfs3.NFS3_OK {
			return nil, fmt.Errorf("LOOKUP %s: %v %w", name, r.Status, errors.Join(err, errRefused))
		}
		return append([]byte(nil), r.Object.Bytes()...), nil
	}
	var err error
	if v.Link, err = look(linkName); err != nil {
		return err
	}
	_, err = askNFS(ctx, s, nfs3.MKDIR, nfs3.AppendMkdirArgs, &nfs3.MkdirArgs{Where: nfs3.DirOp{Dir: root, Name: []byte(dirName)}, Attr: nfs3.Sattr3{SetMode: true, Mode: 0o777}}, nfs3.ConsumeMkdirRes)
	if err != nil {
		return err
	}
	if v.Dir, err = look(dirName); err != nil {
		return err
	}
	dir, _ := nfs3.MakeFH(v.Dir)
	for i := range numEntries {
		at := nfs3.DirOp{Dir: dir, Name: fmt.Appendf(nil, "entry%04d", i)}
		if _, err := askNFS(ctx, s, nfs3.CREATE, nfs3.AppendCreateArgs, &nfs3.CreateArgs{Where: at}, nfs3.ConsumeCreateRes); err != nil {
			return err
		}
	}
	return nil
}

// learn makes each call whose reply always has the same length once, and keeps that length.
func (s *Session) learn(ctx context.Context, root nfs3.FH) error {
	v := s.Srv
	data, _ := nfs3.MakeFH(v.Data)
	scratch, _ := nfs3.MakeFH(v.Scratch)
	link, _ := nfs3.MakeFH(v.Link)
	dir, _ := nfs3.MakeFH(v.Dir)
	calls := [nfs3.NumProcs][]byte{
		nfs3.NULL:     {},
		nfs3.GETATTR:  nfs3.AppendGetattrArgs(nil, &nfs3.GetattrArgs{Object: data}),
		nfs3.LOOKUP:   nfs3.AppendLookupArgs(nil, &nfs3.LookupArgs{What: nfs3.DirOp{Dir: root, Name: []byte(dataName)}}),
		nfs3.ACCESS:   nfs3.AppendAccessArgs(nil, &nfs3.AccessArgs{Object: data, Access: 63}),
		nfs3.READLINK: nfs3.AppendReadlinkArgs(nil, &nfs3.ReadlinkArgs{Symlink: link}),
		nfs3.READDIR:  nfs3.AppendReaddirArgs(nil, &nfs3.ReaddirArgs{Dir: dir, Count: 8192}),
		nfs3.FSINFO:   nfs3.AppendFsinfoArgs(nil, &nfs3.FsinfoArgs{Root: root}),
		nfs3.PATHCONF: nfs3.AppendPathconfArgs(nil, &nfs3.PathconfArgs{Object: root}),
		nfs3.SYMLINK:  s.symlinkArgs(root),
		nfs3.WRITE:    nfs3.AppendWriteArgs(nil, &nfs3.WriteArgs{File: scratch, Count: 4, Data: v.scratch[:4]}),
	}
	for proc, args := range calls {
		if args == nil {
			continue
		}
		b, err := s.plain(ctx, nfs3.Program, uint32(proc), args)
		if err != nil {
			return err
		}
		v.plain[uint32(proc)] = call{args: args, reply: headLen + len(b)}
	}
	return nil
}

// Close ends the connection and frees what the session holds; the files stay.
func (s *Session) Close() error { return s.Req.Close() }
