package conformance

import (
	"bytes"
	"fmt"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
)

// secondDataChunk has a chunk with all of a WRITE's data at its place, and another, of no bytes or of a pad's, elsewhere.
func secondDataChunk(r *responderRun) {
	fh := r.file(nil)
	for _, first := range []bool{false, true} {
		for _, n := range []int{0, 3} {
			r.each(fmt.Sprintf("another chunk of %d bytes, before the data's %t", n, first), func() {
				r.hangUp()
				mr := r.mem(8192, source)
				h := r.header(rpcrdma.RDMA_MSG)
				const size = 1001 // a pad of 3 bytes may be in a chunk
				msg := r.rpcCall(h.XID, nfs3.WRITE, writeHead(fh, size, nfs3.FILE_SYNC))
				data := rpcrdma.ReadSegment{Position: uint32(len(msg)), Segment: seg(mr, 0, size)}
				other := rpcrdma.ReadSegment{Position: uint32(len(msg) - 8), Segment: seg(mr, 4096, n)}
				h.Reads = []rpcrdma.ReadSegment{data, other}
				if first {
					h.Reads = []rpcrdma.ReadSegment{other, data}
				}
				r.wantErrChunk(r.exchange(h, msg))
			})
		}
	}
	r.wantContents(fh, nil, "WRITEs with two chunks")
}

// reservedFlags sets all flags but R, and a key must not be invalidated.
func reservedFlags(r *responderRun) {
	fh := r.file(pattern(4096, 0))
	pd := rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096})
	for bit := 1; bit < 8; bit++ {
		r.each(fmt.Sprintf("flag %#x", 1<<bit), func() {
			pd[5] = 1 << bit
			r.dial(pd, rawpeer.Config{})
			f := r.fastReg(4096)
			a := r.readChunked(fh, 0, 100, []rpcrdma.Segment{f.seg(0, 100)})
			r.readRes(a, true)
			r.want(!a.msg.Inv, "a key was invalidated")
		})
	}
}

// requesterPrivate is what it is, and that reserved flags are not taken for R.
func requesterPrivate(r *requesterRun) {
	requesterPrivateData(r)
	if r.client != nil {
		return
	}
	r.start(fabricConfig{accept: func(_ int, p verbs.ConnParam) verbs.ConnParam {
		p.PrivateData = rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096})
		p.PrivateData[5] = 0xfe
		return p
	}})
	r.want(!r.m.Negotiated().RemoteInvalidation, "reserved flags are taken for remote invalidation")
}

// receivesBeforeCalls reconnects with no load but one call, which has to find its receive on each connection.
func receivesBeforeCalls(r *requesterRun) {
	reconnectsUnderLoad(r)
	r.start(fabricConfig{client: quick(nfsclient.Config{Credits: 16}), within: loadTime})
	fh := r.file("f", pattern(9000, 3))
	buf := make([]byte, 9000)
	for range 5 {
		r.m.Disconnect()
		r.tap.forget()
		n, err := r.readFile(fh, buf)
		r.noErr(err, "READ")
		r.want(bytes.Equal(pattern(9000, 3), buf[:n]), "other data")
		for _, m := range r.tap.sentBy(client) {
			r.want(m.recvs >= 16, "connection %d: %d receives were posted when a call was sent, with 16 slots", m.conn, m.recvs)
		}
		r.noErr(r.s.Sleep(r.ctx, 5*sched.Millisecond), "sleep")
	}
	r.wantConnections(6, "five disconnects")
	r.want(r.counter("retransmissions") == 0, "%d calls were sent again", r.counter("retransmissions"))
}
