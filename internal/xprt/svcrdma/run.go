package svcrdma

import "example.org/nfsrdma/internal/xprt/svc"

// Thread is what one nfsd thread needs to post work.
type Thread struct {
	x     *Transport
	chain chain
}

func (x *Transport) newThread() any {
	t := &Thread{x: x}
	t.chain.init(x)
	return t
}

// local is the part of t that is of this transport.
func (x *Transport) local(t *svc.Thread) *Thread { return t.Local(x.num).(*Thread) }

// Serve serves r. The file system may stop the test meanwhile, which ends this goroutine.
func (r *Request) Serve(t *svc.Thread, h svc.Handler) {
	defer r.conn.unhold()
	r.where = serving
	if r.conn.isClosing() {
		r.Abort()
		return
	}
	switch r.phase {
	case received:
		if !r.conn.x.local(t).header(r) {
			return
		}
	case longRead:
		if !r.longStart(r.conn.x.local(t)) {
			return
		}
	}
	h.Serve(t, r)
}
