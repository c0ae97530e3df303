package nfsserver

import (
	"context"
	"sync/atomic"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xprt/svc"
	"example.org/nfsrdma/nfsserver/vfs"
)

type procCounts [nfs3.NumProcs]uint64

// thread is one nfsd thread, with the storage for the call it executes.
type thread struct {
	srv *Server
	xt  *svc.Thread
	ctx context.Context

	maxPayload int

	procs                         [nfs3.NumProcs]atomic.Uint64
	zeroCopyReads, zeroCopyWrites atomic.Uint64
	readBytes, writeBytes         atomic.Uint64

	call rpc.Call
	sys  rpc.AuthSys
	cred cred

	attr, attr2 vfs.Attr
	wcc, wcc2   vfs.WCC
	set         vfs.SetAttr
	mem         []svc.Mem
	entries     []vfs.DirEntry
	name        []byte
	guard       vfs.Time

	readArgs  nfs3.ReadArgs
	readRes   nfs3.ReadRes
	writeArgs nfs3.WriteArgs
	writeRes  nfs3.WriteRes
}

func newThread(s *Server) *thread {
	return &thread{srv: s, xt: s.pool.NewThread(), ctx: s.ctx, maxPayload: s.cfg.MaxPayload}
}

// callState is the server's part of a request: what outlives the thread's work while READs are outstanding.
type callState struct {
	srv   *Server
	write writeCall
	drc   *drcEntry // of a call that is executed
	proc  nfs3.Proc
	isNFS bool // proc is of an NFS call
}

// Release gives back what a call holds whose connection has ended.
func (c *callState) Release() {
	c.write.release()
	c.srv.drc.abandon(c.drc)
	c.drc = nil
}

// replyState is the server's part of a reply: the pages that the device reads.
type replyState struct {
	fs    vfs.PageReader // nil: no pages
	pages vfs.Pages
}

// Release gives the pages back.
func (p *replyState) Release() {
	if p.fs != nil {
		p.fs.ReleasePages(&p.pages)
		p.fs = nil
		p.pages.Reset()
	}
}
