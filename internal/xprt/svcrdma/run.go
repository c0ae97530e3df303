package svcrdma

import "context"

// Handler is the RPC layer over the transport.
type Handler interface {
	// Serve executes r; the package comment says how it ends. It may wait.
	Serve(t *Thread, r *Request)
}

// Thread is what one nfsd thread needs to post work. The zero value is not usable; see NewThread.
type Thread struct {
	x     *Transport
	chain chain
}

// NewThread makes a thread's storage.
func (x *Transport) NewThread() *Thread {
	t := &Thread{x: x}
	t.chain.init(x)
	return t
}

// Run serves calls until Shutdown, or until Stop ends this or another thread.
func (x *Transport) Run(t *Thread, h Handler) {
	for {
		r, err := x.queue.Pop(context.Background())
		if err != nil || r == nil {
			return
		}
		c := r.conn
		r.where = serving
		t.serve(r, h)
		c.unhold()
	}
}

// Stop makes one Run return.
func (x *Transport) Stop() { x.queue.Push(nil) }

// serve takes r as far as it gets without waiting for the device.
func (t *Thread) serve(r *Request, h Handler) {
	if r.conn.isClosing() {
		r.abort()
		return
	}
	switch r.phase {
	case received:
		if !t.header(r) {
			return
		}
	case longRead:
		if !r.longStart(t) {
			return
		}
	}
	h.Serve(t, r)
}
