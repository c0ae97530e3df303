package svcrdma

import "example.org/nfsrdma/internal/sched"

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

// Run serves calls until Shutdown, or until Stop ends this or another thread. What is queued is served, and so
// let go, also when a test was stopped.
func (x *Transport) Run(t *Thread, h Handler) {
	for {
		r, err := x.queue.Pop(sched.Cleanup)
		if err != nil || r == nil {
			return
		}
		t.run(r, h)
	}
}

// run serves r. The file system may stop the test meanwhile, which ends this goroutine.
func (t *Thread) run(r *Request, h Handler) {
	defer r.conn.unhold()
	r.where = serving
	t.serve(r, h)
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
