package conformance

import (
	"strings"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/nfsclient"
)

// onlyEligibleReduced wants chunks for eligible items alone, and wants some.
func onlyEligibleReduced(r *requesterRun) {
	reads, writes := 0, 0
	r.eachCall(fabricConfig{}, func(c *callMsg) {
		if !c.nfs {
			return
		}
		if len(c.h.Reads) > 0 && c.h.Reads[0].Position > 0 {
			reads++
			r.want(c.proc == nfs3.WRITE || c.proc == nfs3.SYMLINK, "%v has a Read chunk", c.proc)
		}
		if c.h.Writes.Len() > 0 {
			writes++
			r.want(c.proc == nfs3.READ || c.proc == nfs3.READLINK, "%v has a Write chunk", c.proc)
		}
	})
	r.want(reads > 0 && writes > 0, "%d Read and %d Write chunks were seen", reads, writes)
}

// writeOf gives the head of a WRITE's arguments.
func writeOf(c *callMsg) (w nfs3.WriteArgs, length uint32, n int, ok bool) {
	if !c.nfs || c.proc != nfs3.WRITE || c.h.Proc != rpcrdma.RDMA_MSG {
		return w, 0, 0, false
	}
	length, n, err := nfs3.ConsumeWriteArgsHead(c.args, &w)
	return w, length, n, err == nil
}

func requesterCountInline(r *requesterRun) {
	seen := 0
	r.eachCall(fabricConfig{}, func(c *callMsg) {
		w, length, _, ok := writeOf(c)
		if ok && len(c.h.Reads) > 0 {
			seen++
			r.want(length == w.Count, "length word %d of a WRITE of %d bytes", length, w.Count)
		}
	})
	r.want(seen > 0, "no reduced WRITE was seen")
}

func requesterRoundup(r *requesterRun) {
	seen := 0
	r.eachCall(fabricConfig{}, func(c *callMsg) {
		w, _, n, ok := writeOf(c)
		if !ok {
			return
		}
		if len(c.h.Reads) == 0 {
			r.want(len(c.args) == n+xdr.Roundup(int(w.Count)), "an inline WRITE of %d bytes has %d behind its head", w.Count, len(c.args)-n)
			return
		}
		seen++
		r.want(len(c.args) == n, "a reduced WRITE of %d bytes has %d behind its head", w.Count, len(c.args)-n)
	})
	r.want(seen > 0, "no reduced WRITE was seen")
}

func positions(r *requesterRun) {
	seen := 0
	r.eachCall(fabricConfig{}, func(c *callMsg) {
		for _, s := range c.h.Reads {
			seen++
			r.want(s.Position%4 == 0, "position %d", s.Position)
			r.want(int(s.Position) <= len(c.body), "position %d in a message of %d bytes", s.Position, len(c.body))
			r.want(s.Position > 0 == (c.h.Proc == rpcrdma.RDMA_MSG), "position %d in %v", s.Position, c.h.Proc)
			if _, _, n, ok := writeOf(c); ok {
				r.want(int(s.Position) == len(c.body)-len(c.args)+n, "position %d of WRITE data", s.Position)
			}
		}
	})
	r.want(seen > 0, "no Read chunk was seen")
}

func noPadInReadChunk(r *requesterRun) {
	odd := 0
	r.eachCall(fabricConfig{}, func(c *callMsg) {
		w, _, _, ok := writeOf(c)
		if ok && len(c.h.Reads) > 0 {
			n := rpcrdma.ReadChunkLen(c.h.Reads)
			r.want(n == uint64(w.Count), "a Read chunk of %d bytes for %d", n, w.Count)
			odd += int(w.Count % 4)
		}
	})
	r.want(odd > 0, "no reduced WRITE of an odd length was seen")
}

func writeChunkSize(r *requesterRun) {
	seen := 0
	r.eachCall(fabricConfig{}, func(c *callMsg) {
		if c.h.Writes.Len() == 0 || c.proc != nfs3.READ {
			return
		}
		seen++
		var a nfs3.ReadArgs
		_, err := nfs3.ConsumeReadArgs(c.args, &a)
		r.must(err == nil, "READ arguments: %v", err)
		n := rpcrdma.ChunkLen(c.h.Writes.Chunk(0))
		r.want(n >= uint64(a.Count), "a Write chunk of %d bytes for a READ of %d", n, a.Count)
	})
	r.want(seen > 0, "no Write chunk was seen")
}

// requesterLongCall has a call that is too long for inline and has nothing to reduce: names of 255 bytes, a long
// credential, and handles of 64 bytes, which the server has not.
func requesterLongCall(r *requesterRun) {
	groups := make([]uint32, 16)
	r.start(fabricConfig{
		client: nfsclient.Config{InlineSend: 1024, Cred: nfsclient.Cred{GIDs: groups, Machine: strings.Repeat("m", 255)}},
	})
	r.tap.forget()
	fh, _ := nfs3.MakeFH(make([]byte, nfs3.MaxFHLen))
	err := r.m.Rename(r.ctx, fh, strings.Repeat("a", 255), fh, strings.Repeat("b", 255))
	st, ok := err.(*nfsclient.Error)
	r.must(ok, "RENAME with false handles: %v", err)
	r.want(st.Status == nfs3.NFS3ERR_BADHANDLE || st.Status == nfs3.NFS3ERR_STALE, "RENAME with false handles: %v", err)
	l := r.calls()
	r.must(len(l) == 1, "%d calls", len(l))
	h := &l[0].h
	r.must(h.Proc == rpcrdma.RDMA_NOMSG, "a call of more than 1024 bytes is sent as %v", h)
	r.want(len(l[0].body) == 0, "%d bytes behind the header of an RDMA_NOMSG", len(l[0].body))
	r.must(len(h.Reads) > 0, "no Read chunk")
	for _, s := range h.Reads {
		r.want(s.Position == 0, "position %d", s.Position)
	}
	n := rpcrdma.ReadChunkLen(h.Reads)
	want := uint64(1036) // RPC header 40, credential 340, two handles of 68 and two names of 260, of which 255 are followed by a pad
	r.want(n == want, "the chunk has %d bytes, the call %d", n, want)
}

func requesterXIDs(r *requesterRun) {
	last := map[uint32]int{}
	i := 0
	r.eachCall(fabricConfig{}, func(c *callMsg) {
		r.want(c.h.Vers == 1, "version %d", c.h.Vers)
		if c.h.Proc == rpcrdma.RDMA_MSG {
			r.want(c.h.XID == c.rpc.XID, "RPC XID %#x under RDMA XID %#x", c.rpc.XID, c.h.XID)
		}
		r.want(last[c.h.XID] == 0, "XID %#x a second time", c.h.XID)
		i++
		last[c.h.XID] = i
	})
}

func onlyMsgAndNomsg(r *requesterRun) {
	r.eachCall(fabricConfig{}, func(c *callMsg) {
		r.want(c.h.Proc == rpcrdma.RDMA_MSG || c.h.Proc == rpcrdma.RDMA_NOMSG, "%v is sent", c.h.Proc)
	})
}

func replyChunkOffered(r *requesterRun) {
	const inline = 1024
	seen := 0
	r.eachCall(fabricConfig{client: nfsclient.Config{InlineRecv: inline}}, func(c *callMsg) {
		if !c.nfs || c.h.Proc != rpcrdma.RDMA_MSG {
			return
		}
		longest := rpcrdma.MinHeaderLen + rpc.SuccessLen
		switch c.proc {
		case nfs3.READ, nfs3.READLINK: // may have a Write chunk
			return
		case nfs3.READDIR:
			var a nfs3.ReaddirArgs
			_, err := nfs3.ConsumeReaddirArgs(c.args, &a)
			r.must(err == nil, "READDIR arguments: %v", err)
			longest += int(a.Count)
		case nfs3.READDIRPLUS:
			var a nfs3.ReaddirplusArgs
			_, err := nfs3.ConsumeReaddirplusArgs(c.args, &a)
			r.must(err == nil, "READDIRPLUS arguments: %v", err)
			longest += int(a.MaxCount)
		default:
			longest += nfs3.MaxReplyLen(c.proc, 0)
		}
		if longest > inline {
			seen++
			n := rpcrdma.ChunkLen(c.h.Reply)
			r.want(c.h.HasReply && n >= uint64(longest-rpcrdma.MinHeaderLen), "%v with a reply of %d bytes offers a Reply chunk of %d", c.proc, longest, n)
		}
	})
	r.want(seen > 0, "no call with a long reply was seen")
}

func chunkCounts(r *requesterRun) {
	// A segment a page in the all-physical mode needs a payload of as few pages.
	for _, cfg := range []nfsclient.Config{{}, {RegMode: nfsclient.AllPhysical, MaxDataSegs: 15}} {
		r.eachCall(fabricConfig{client: cfg}, func(c *callMsg) {
			var zero, other, places int
			for list := c.h.Reads; len(list) > 0; {
				var chunk []rpcrdma.ReadSegment
				if chunk, list = rpcrdma.ReadChunk(list); chunk[0].Position == 0 {
					zero++
				} else {
					other++
				}
				places = max(places, len(chunk))
			}
			r.want(zero <= 1 && other <= 1, "%d position-zero and %d other Read chunks", zero, other)
			r.want(c.h.Writes.Len() <= 1, "%d Write chunks", c.h.Writes.Len())
			if c.h.Writes.Len() > 0 {
				places = max(places, len(c.h.Writes.Chunk(0)))
			}
			r.want(max(places, len(c.h.Reply)) <= 16, "a chunk of %d segments", max(places, len(c.h.Reply)))
			seen := map[rpcrdma.Segment]bool{}
			for _, s := range segments(&c.h) {
				r.want(s.Length > 0, "a segment without bytes")
				s.Length = 0
				r.want(!seen[s], "segment %v twice", s)
				seen[s] = true
			}
		})
	}
}

// segments lists all of a header.
func segments(h *rpcrdma.Header) []rpcrdma.Segment {
	var l []rpcrdma.Segment
	for _, s := range h.Reads {
		l = append(l, s.Segment)
	}
	for i := range h.Writes.Len() {
		l = append(l, h.Writes.Chunk(i)...)
	}
	return append(l, h.Reply...)
}
