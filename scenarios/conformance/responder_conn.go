package conformance

import (
	"encoding/binary"
	"fmt"
	"strings"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xprt/svcrdma/rawpeer"
	"example.org/nfsrdma/verbs"
)

func grantsCredits(r *responderRun) {
	for _, asked := range []uint32{0, 1, 32, 1 << 31} {
		h := r.header(rpcrdma.RDMA_MSG)
		h.Credits = asked
		r.wantOK(r.exchange(h, r.rpcCall(h.XID, nfs3.NULL, nil))) // answer wants credits
	}
	h := r.header(rpcrdma.RDMA_MSGP) // an error grants too
	r.exchange(h, nil)
}

func receivesForAllCredits(r *responderRun) {
	r.dial(rpcrdma.AppendPrivateData(nil, defaultPrivate), rawpeer.Config{Recvs: 300})
	r.wantCredits(int(r.null().h.Credits))
}

// repliesChangeNoCredits sends replies to calls that nobody made, with credits of their own direction.
func repliesChangeNoCredits(r *responderRun) {
	r.dial(rpcrdma.AppendPrivateData(nil, defaultPrivate), rawpeer.Config{Recvs: 300})
	granted := r.null().h.Credits
	for _, credits := range []uint32{0, 1, 1 << 31} {
		h := r.header(rpcrdma.RDMA_MSG)
		h.Credits = credits
		r.wantSilence(append(rpcrdma.AppendHeader(nil, h), rpc.AppendReplySuccess(nil, h.XID)...), "an RPC reply of the requester")
		now := r.null().h.Credits
		r.want(now == granted, "%d credits behind a reply with %d of the other direction, %d before", now, credits, granted)
	}
	r.wantCredits(int(granted))
}

// wantCredits makes as many calls at once as were granted, on a connection with 300 receives.
func (r *responderRun) wantCredits(granted int) {
	n := min(granted, 120)
	h := r.header(rpcrdma.RDMA_MSG)
	msg := append(rpcrdma.AppendHeader(nil, h), r.rpcCall(h.XID, nfs3.NULL, nil)...)
	// As many calls as were granted at once, and one more the moment each reply comes.
	for range n {
		r.noErr(r.peer.Post(msg, true), "SEND")
	}
	for range 4 * n {
		r.answer()
		r.noErr(r.peer.Post(msg, true), "SEND")
	}
	for range n {
		r.answer()
	}
	for _, c := range r.t.Device.Counters() {
		if strings.Contains(c.Name, "rnr") {
			r.want(c.Value == 0 || r.own == nil, "%s is %d: a receive was missing", c.Name, c.Value)
		}
	}
}

// wantThreshold wants the longest inline reply to be of n bytes: one of n is inline, one longer has no room.
func (r *responderRun) wantThreshold(fh nfs3.FH, n int) {
	head := rpcrdma.MinHeaderLen + rpc.SuccessLen + nfs3.ReadResHeadLen
	most := n - head
	h := r.header(rpcrdma.RDMA_MSG)
	a := r.exchange(h, r.rpcCall(h.XID, nfs3.READ, readArgs(fh, 0, most)))
	r.readRes(a, false)
	r.want(len(a.msg.Bytes) == n, "a reply of %d bytes, not %d, came inline", len(a.msg.Bytes), n)
	h = r.header(rpcrdma.RDMA_MSG)
	r.wantErr(r.exchange(h, r.rpcCall(h.XID, nfs3.READ, readArgs(fh, 0, most+4))), rpcrdma.ERR_CHUNK, fmt.Sprintf("a reply of %d bytes, 4 longer than the threshold", n+4))
}

func threshold1024(r *responderRun) {
	fh := r.file(pattern(4096, 0))
	r.dial(nil, rawpeer.Config{})
	r.wantThreshold(fh, rpcrdma.DefaultInline)
	// And takes a call of as many bytes.
	h := r.header(rpcrdma.RDMA_MSG)
	msg := r.rpcCall(h.XID, nfs3.WRITE, nil)
	n := rpcrdma.DefaultInline - rpcrdma.MinHeaderLen - len(msg) - len(writeHead(fh, 0, nfs3.FILE_SYNC))
	msg = nfs3.AppendWriteArgs(msg, &nfs3.WriteArgs{File: fh, Count: uint32(n), Stable: nfs3.FILE_SYNC, Data: pattern(n, 1)})
	a := r.exchange(h, msg)
	r.wantWritten(a, n)
}

func thresholdIsTheLesser(r *responderRun) {
	fh := r.file(pattern(1<<17, 0))
	for _, n := range []int{1024, 2048, 65536} {
		r.each(fmt.Sprintf("receives of %d bytes", n), func() {
			r.dial(rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: n, RecvSize: n}), rawpeer.Config{RecvSize: 65536, Recvs: 40})
			r.wantThreshold(fh, min(n, r.priv.SendSize))
		})
	}
}

func privateData(r *responderRun) {
	fh := r.file(pattern(1<<14, 0))
	r.each("reserved flags and more bytes", func() {
		pd := append(rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: 4096, RecvSize: 2048}), 1, 2, 3)
		pd[5] |= 0xfe
		r.dial(pd, rawpeer.Config{})
		b := r.peer.Private
		r.must(len(b) >= rpcrdma.PrivateDataLen, "%d bytes of private data", len(b))
		r.want(binary.BigEndian.Uint32(b) == 0xf6ab0e18, "magic %x", b[:4])
		r.want(b[4] == 1, "version %d", b[4])
		r.want(b[5]&0xfe == 0, "reserved flags %#x are not zero", b[5])
		r.want(r.priv.SendSize == (int(b[6])+1)*1024, "C48: send size")
		r.wantThreshold(fh, min(2048, r.priv.SendSize))
	})
	r.each("none on the next connection", func() {
		r.dial(nil, rawpeer.Config{})
		r.wantThreshold(fh, rpcrdma.DefaultInline)
	})
}

func invalidPrivateData(r *responderRun) {
	fh := r.file(pattern(4096, 0))
	good := rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096})
	for _, c := range []struct {
		what string
		at   int
	}{{"another version", 4}, {"another magic", 0}} {
		bad := append([]byte(nil), good...)
		bad[c.at]++
		r.each(c.what, func() {
			r.dial(bad, rawpeer.Config{})
			r.wantThreshold(fh, rpcrdma.DefaultInline)
			f := r.fastReg(4096)
			a := r.readChunked(fh, 0, 100, []rpcrdma.Segment{f.seg(0, 100)})
			r.readRes(a, true)
			r.want(!a.msg.Inv, "a key was invalidated")
		})
	}
	r.each("6 bytes", func() {
		r.dial(good[:6], rawpeer.Config{})
		r.wantThreshold(fh, rpcrdma.DefaultInline)
	})
}

// fastReg is memory under a key that can be invalidated: a fast registration, or a window where the device has none.
type fastReg struct {
	key  uint32
	addr uint64
}

func (r *responderRun) fastReg(n int) *fastReg {
	if r.t.Device.Attr().MaxFastRegPages == 0 {
		return r.window(n)
	}
	pd := r.conn().PD()
	m := &verbs.DMAMap{}
	r.noErr(pd.MapDMA(m, make([]byte, n)), "map")
	mr, err := pd.AllocFastRegMR(n/verbs.PageSize + 2)
	r.noErr(err, "fast registration")
	mr.MapPages(m.Segs)
	f := &fastReg{key: mr.NextKey(), addr: mr.Addr()}
	r.regs = append(r.regs, func() {
		pd.UnmapDMA(m)
		_ = mr.Close()
	})
	_, err = r.peer.QP().PostSend([]verbs.SendWR{{Op: verbs.OpRegMR, Reg: mr, Key: f.key, Access: sink | verbs.RemoteRead}})
	r.noErr(err, "REG_MR")
	return f
}

// window binds a type 2B window over memory of its own.
func (r *responderRun) window(n int) *fastReg {
	if r.t.Device.Attr().Caps&verbs.CapMemWindow2B == 0 {
		r.skip("the device has no key that a user can have invalidated")
	}
	mr := r.mem(n, verbs.LocalWrite|verbs.MWBind)
	mw, err := r.peer.PD().AllocMW(verbs.MWType2B)
	r.noErr(err, "window")
	f := &fastReg{key: mw.NextKey(), addr: mr.Addr()}
	r.regs = append(r.regs, func() { _ = mw.Close() })
	_, err = r.peer.QP().PostSend([]verbs.SendWR{{Op: verbs.OpBindMW, MW: mw, Key: f.key,
		Bind: verbs.Bind{MR: mr, Addr: mr.Addr(), Length: uint64(n), Access: verbs.RemoteRead | verbs.RemoteWrite}}})
	r.noErr(err, "BIND_MW")
	return f
}

func (f *fastReg) seg(off, n int) rpcrdma.Segment {
	return rpcrdma.Segment{Handle: f.key, Length: uint32(n), Offset: f.addr + uint64(off)}
}

func sendWithInvalidate(r *responderRun) {
	fh := r.file(pattern(100, 0))
	for _, c := range []struct {
		what         string
		client       bool
		chunks, keys int
	}{
		{"one key", true, 1, 1},
		{"one key in three segments", true, 3, 1},
		{"two keys", true, 2, 2},
		{"no chunk", true, 0, 0},
		{"not offered by the client", false, 1, 1},
	} {
		r.each(c.what, func() {
			r.dial(rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: c.client, SendSize: 4096, RecvSize: 4096}), rawpeer.Config{})
			fr := []*fastReg{r.fastReg(8192), r.fastReg(8192)}
			h := r.header(rpcrdma.RDMA_MSG)
			var segs []rpcrdma.Segment
			for i := range c.chunks {
				segs = append(segs, fr[min(i, c.keys-1)].seg(i*100, 100))
			}
			if c.chunks > 0 {
				h.Writes.Add(segs)
			}
			a := r.exchange(h, r.rpcCall(h.XID, nfs3.READ, readArgs(fh, 0, 100)))
			r.readRes(a, c.chunks > 0)
			switch {
			case !a.msg.Inv: // a responder need not
			case c.chunks == 0:
				r.wrong("a key was invalidated, and the call has none")
			case !c.client:
				r.wrong("a key was invalidated, though the requester's flag is clear")
			case a.msg.InvKey != fr[0].key && (c.keys == 1 || a.msg.InvKey != fr[1].key):
				r.wrong("a key was invalidated that is not of this call")
			case !r.priv.RemoteInvalidate:
				r.wrong("a key of the call was invalidated, though the responder's own flag is clear")
			}
		})
	}
}

func emptyChunksAndInvalidation(r *responderRun) {
	want := pattern(100, 0)
	fh := r.file(want)
	for _, c := range []struct {
		what                string
		write, reply, chunk bool
	}{{"empty Write chunk", true, false, false}, {"empty Reply chunk", false, true, false}, {"both", true, true, false}, {"an empty Write chunk before another", true, false, true}} {
		r.each(c.what, func() {
			r.dial(rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}), rawpeer.Config{})
			h := r.header(rpcrdma.RDMA_MSG)
			if c.write {
				h.Writes.Add(nil)
			}
			if c.chunk {
				h.Writes.Add([]rpcrdma.Segment{r.fastReg(4096).seg(0, 4096)})
			}
			h.HasReply = c.reply
			a := r.exchange(h, r.rpcCall(h.XID, nfs3.READ, readArgs(fh, 0, 100)))
			if a.h.Proc == rpcrdma.RDMA_ERROR {
				r.wantErrChunk(a)
				return
			}
			r.want(string(r.readRes(a, false).Data) == string(want), "other data")
			r.want(!a.msg.Inv || c.chunk, "a key was invalidated, and the call has none")
			r.wantAlive()
		})
	}
}

func cannotReplyCloses(r *responderRun) {
	r.dial(rpcrdma.AppendPrivateData(nil, defaultPrivate), rawpeer.Config{Recvs: -1})
	h := r.header(rpcrdma.RDMA_MSG)
	r.send(append(rpcrdma.AppendHeader(nil, h), r.rpcCall(h.XID, nfs3.NULL, nil)...))
	// No receive is there for the reply.
	for range 60 {
		r.noErr(r.t.Sched.Sleep(r.ctx, answerWait), "sleep")
		if len(r.own.Connections()) == 0 {
			r.dial(rpcrdma.AppendPrivateData(nil, defaultPrivate), rawpeer.Config{})
			r.null()
			return
		}
	}
	r.wrong("the connection on which no reply can be sent stays open")
}

func defaultPort(r *responderRun) {
	r.want(strings.HasSuffix(r.t.Addr, ":20049"), "the server is at %s", r.t.Addr)
	r.null()
}
