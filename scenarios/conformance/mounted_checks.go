package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
)

// mountedCheck is the form of a requester's check for a client that mounts, or why it has none.
type mountedCheck struct {
	f   func(*requesterRun)
	why string
}

// mountedChecks are by the names of the requester's checks.
var mountedChecks = map[string]*mountedCheck{
	"CallsWithinCredits":    {f: mountedCredits},
	"ReceivesForAllReplies": {f: mountedReceives},
	"OneCreditAtFirst":      {f: mountedOneCredit},
	"OnlyEligibleReduced":   {f: onlyEligibleReduced},
	"CountStaysInline":      {f: requesterCountInline},
	"RoundupRemoved":        {f: requesterRoundup},
	"Positions":             {f: positions},
	"NoPadInReadChunk":      {f: noPadInReadChunk},
	"WriteChunkSize":        {f: writeChunkSize},
	"XIDsAgree":             {f: requesterXIDs},
	"Procs":                 {f: onlyMsgAndNomsg},
	"ReplyChunkOffered":     {f: replyChunkOffered},
	"ChunkCounts":           {f: chunkCounts},
	"UnusedMemoryMayChange": {f: unusedMemory},
	"FencedAfterReply":      {f: mountedFenced},
	"FencedAfterCancel":     {f: mountedFencedCancel},
	"DropsShort":            {f: mountedShort},
	"BadReplyEndsCall":      mountedBadReplies,
	"BadReplies":            mountedBadReplies,
	"BadErrorDropped":       {f: mountedBadError},
	"DropsDone":             {f: mountedDone},
	"NoRetransmission":      mountedNoResend,
	"PrivateData":           {f: requesterPrivateData},
	"Flag":                  {f: mountedFlag},
	"ThresholdIsTheLesser":  {f: mountedLesser},
	"InvalidPrivateData":    {f: mountedInvalidPrivate},
	"Threshold1024":         {f: requester1024},
	"CallFromServer":        mountedCallFromServer,

	"DataComesInline":      {f: dataComesInline},
	"ErrorsEndCalls":       {f: mountedErrors},
	"Flood":                {f: uselessFlood},
	"ReconnectsUnderLoad":  mountedReconnect,
	"DisconnectsUnderLoad": mountedReconnect,
	"IRDChanges":           mountedReconnect,
	"FewRegions":           {f: mountedBurst},
	"InlineWrites":         {f: mountedWrites},
	"ExactResend":          {f: mountedResend},
	"DropAtAnyMessage":     {f: mountedDrop},

	"LongCall":               noLongCall,
	"NomsgHasPayload":        noLongCall,
	"BadReplyDropped":        {why: "one of two ways; BadReplyEndsCall takes either"},
	"CannotFenceCloses":      {why: "a client that registers memory for each call can take it back"},
	"FewSGEs":                insideClient,
	"EventBeforeEstablished": insideClient,
	"PostingReceivesFails":   insideClient,
	"SmallSendQueue":         insideClient,
	"LossyLink":              {why: "both ends are on one device"},
}

var (
	noLongCall   = &mountedCheck{why: "no file operation makes a call of more than 1024 bytes that has no data item"}
	insideClient = &mountedCheck{why: "what has to be set or to fail is within the client"}

	mountedBadReplies     = &mountedCheck{f: mountedBadRepliesCheck}
	mountedNoResend       = &mountedCheck{f: noRetransmissionMounted}
	mountedCallFromServer = &mountedCheck{f: callFromServerMounted}
	mountedReconnect      = &mountedCheck{f: mountedReconnects}
)

// noInvServer keeps the server from invalidating, so that a reply can be altered.
var noInvServer = nfsserver.Config{NoRemoteInvalidation: true}

func mountedCredits(r *requesterRun) {
	for _, credits := range []int{1, 3, 8} {
		r.start(fabricConfig{server: nfsserver.Config{Credits: credits, Threads: 16}})
		r.manyStats(12, 2)
		most := 0
		r.outstanding(func(_ *sent, calls, granted int) {
			most = max(most, calls)
			r.want(granted == 0 || calls <= granted, "%d calls are outstanding with %d credits", calls, granted)
		})
		r.want(most == credits, "%d calls at once of the %d that were granted", most, credits)
	}
}

// mountedReceives has many replies come together. The client's receives cannot be seen; a reply that finds none ends the
// connection, as the client asks for no retry.
func mountedReceives(r *requesterRun) {
	r.start(fabricConfig{server: nfsserver.Config{Threads: 32}})
	r.manyStats(32, 4)
	r.wantConnections(1, "many replies")
	r.want(r.tap.conns[0].RNRRetry == 0, "the client asks for %d retries", r.tap.conns[0].RNRRetry)
}

func mountedOneCredit(r *requesterRun) {
	r.start(fabricConfig{server: nfsserver.Config{Threads: 16}})
	r.prepareStats(8)
	r.tap.forget()
	r.disconnect()
	r.stats(8, 2)
	firsts := 0
	r.outstanding(func(m *sent, calls, granted int) {
		if m.conn > 1 && granted == 0 {
			firsts++
			r.want(calls == 1, "%d calls before the first reply", calls)
		}
	})
	r.want(firsts == 1, "%d calls before the first reply of the second connection", firsts)
}

func mountedLesser(r *requesterRun) {
	for _, c := range []struct{ server, want int }{{1024, 1024}, {2048, 2048}, {8192, 4096}} {
		r.start(fabricConfig{server: nfsserver.Config{InlineRecv: c.server}})
		r.tap.forget()
		r.inlineWrites("f")
		r.wantMessages(c.want)
		b := r.tap.conns[0].PrivateData
		r.must(len(b) >= 8, "%d bytes of private data", len(b))
		r.want(b[6] == 3, "send size %d for 4096 bytes", b[6])
	}
}

func mountedInvalidPrivate(r *requesterRun) {
	for at := range []int{0, 4} {
		r.start(fabricConfig{server: noInvServer, accept: func(_ int, p verbs.ConnParam) verbs.ConnParam {
			p.PrivateData = append([]byte(nil), p.PrivateData...)
			p.PrivateData[at]++
			return p
		}})
		r.tap.forget()
		r.inlineWrites("f")
		r.wantMessages(rpcrdma.DefaultInline)
	}
}

// mountedFlag wants a client that says so to stand invalidation of its keys, and its absence.
func mountedFlag(r *requesterRun) {
	for _, off := range []bool{false, true} {
		r.start(fabricConfig{server: nfsserver.Config{NoRemoteInvalidation: off}})
		want := pattern(9000, 1)
		f := r.file("f", want)
		r.tap.forget()
		for range 5 {
			r.read(f, 9000, want)
		}
		b := r.tap.conns[0].PrivateData
		r.must(len(b) >= 8, "%d bytes of private data", len(b))
		invs := 0
		for _, m := range r.tap.sentBy(server) {
			if m.op == verbs.OpSendWithInv {
				invs++
			}
		}
		switch {
		case off || b[5]&1 == 0:
			r.want(invs == 0, "%d keys were invalidated", invs)
		default:
			r.want(invs > 0, "the client's flags are %#x, and no key was invalidated", b[5])
		}
		r.wantConnections(1, "invalidation")
	}
}

// lateWriteMounted has the server write to a segment before its next reply.
func (r *requesterRun) lateWriteMounted(s rpcrdma.Segment) {
	done := false
	r.tap.hook(func(o *outgoing) {
		if !done {
			done = true
			o.before = []verbs.SendWR{{Op: verbs.OpRDMAWrite, RKey: s.Handle, RemoteAddr: s.Offset, SGEs: o.wr.SGEs[:1]}}
		}
	})
	n := r.tap.count()
	r.null()
	r.want(r.tap.count() == n+1, "a write to memory that was taken back does not end the connection")
}

func mountedFenced(r *requesterRun) {
	for _, off := range []bool{false, true} {
		r.start(fabricConfig{server: nfsserver.Config{NoRemoteInvalidation: off}})
		want := pattern(9000, 1)
		f := r.file("f", want)
		r.tap.forget()
		buf := make([]byte, 9000)
		_, err := r.readFile(f, buf)
		r.noErr(err, "READ")
		l := r.callsOf(nfs3.READ)
		r.must(len(l) == 1 && len(segments(&l[0].h)) > 0, "a READ of 9000 bytes is %d calls, or has no chunk", len(l))
		r.lateWriteMounted(segments(&l[0].h)[0])
		r.want(bytes.Equal(want, buf), "memory changed after its call had ended")
	}
}

// mountedFencedCancel has a READLINK given up, whose Reply or Write chunk is then written to.
func mountedFencedCancel(r *requesterRun) {
	r.start(fabricConfig{})
	r.link("link", 900)
	r.null()
	r.tap.forget()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	r.onceOf(nfs3.READLINK, func(o *outgoing) {
		o.swallow = true
		cancel()
	})
	r.want(r.client.ReadLink(ctx, r.path("link")) != nil, "READLINK that is not answered succeeds")
	l := r.callsOf(nfs3.READLINK)
	r.must(len(l) == 1 && len(segments(&l[0].h)) > 0, "READLINK is %d calls, or has no chunk", len(l))
	r.lateWriteMounted(segments(&l[0].h)[0])
}

// early has a message, which should be dropped, take the place of the reply to a READ, and says what is wrong if it is not dropped.
// The reply comes a while later: one that came at once could reach the client before it is through with the message.
func (r *requesterRun) early(f checked, want []byte, what string, msg func(xid uint32) []byte) {
	r.tap.forget()
	conns := r.tap.count()
	var reply []byte // under the tap's lock
	r.once(func(o *outgoing) {
		reply = o.bytes
		o.replace = msg(o.h.XID)
	})
	g := r.s.NewGroup("the reply to a READ")
	g.Go("reply", func() {
		for late := false; !late; {
			if r.s.Sleep(r.ctx, 300*sched.Millisecond) != nil {
				return
			}
			r.tap.set(func() {
				if late = reply != nil; late {
					r.tap.onSend = func(o *outgoing) { o.first, r.tap.onSend = [][]byte{reply}, nil }
				}
			})
		}
		r.null()
	})
	buf := make([]byte, len(want))
	n, err := r.readFile(f, buf)
	r.noErr(g.Wait(r.ctx), "wait")
	calls := len(r.callsOf(nfs3.READ))
	switch {
	case err != nil:
		r.wrong("%s ends the call: %v", what, errno(err))
	case !bytes.Equal(want, buf[:n]):
		r.wrong("%s: READ gives %d bytes, or others", what, n)
	case calls > 1:
		r.wrong("%s: the call is sent again", what)
	}
	r.want(r.tap.count() == conns, "%s ends the connection", what)
}

// errno is the error of the system in an error of a file.
func errno(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

func mountedShort(r *requesterRun) {
	r.start(fabricConfig{server: noInvServer})
	want := pattern(9000, 1)
	f := r.file("f", want)
	for _, n := range []int{0, 4, 12, 16, 20, 24, 27} {
		r.early(f, want, fmt.Sprintf("a message of %d bytes", n), func(xid uint32) []byte {
			return rpcrdma.AppendHeader(nil, &rpcrdma.Header{XID: xid, Vers: 1, Credits: 32})[:n]
		})
	}
	r.read(f, 9000, want)
}

func mountedDone(r *requesterRun) {
	r.start(fabricConfig{server: noInvServer})
	want := pattern(9000, 1)
	f := r.file("f", want)
	for _, n := range []int{0, 12} {
		r.early(f, want, fmt.Sprintf("RDMA_DONE with %d bytes behind it", n), func(xid uint32) []byte {
			return append(rpcrdma.AppendHeader(nil, &rpcrdma.Header{XID: xid, Vers: 1, Credits: 32, Proc: rpcrdma.RDMA_DONE}), make([]byte, n)...)
		})
	}
	r.read(f, 9000, want)
}

func callFromServerMounted(r *requesterRun) {
	r.start(fabricConfig{server: noInvServer})
	want := pattern(9000, 1)
	f := r.file("f", want)
	r.early(f, want, "a call of the other direction", func(xid uint32) []byte {
		call := rpc.AppendCall(nil, &rpc.Call{XID: xid, Prog: 0x40000000, Vers: 1})
		return message(&rpcrdma.Header{XID: xid, Vers: 1, Credits: 1}, call)
	})
	r.tap.hook(nil)
	r.read(f, 9000, want)
}

// altered has one reply to a READ altered. It gives whether the call ended with an error, was sent again, or neither.
func (r *requesterRun) altered(f checked, want []byte, alter func(*outgoing)) (n int, right, resent bool, err error) {
	r.tap.forget()
	r.once(alter)
	buf := make([]byte, len(want))
	n, err = r.readFile(f, buf)
	xids := map[uint32]int{}
	for _, c := range r.callsOf(nfs3.READ) {
		xids[c.h.XID]++
		resent = resent || xids[c.h.XID] > 1
	}
	return n, bytes.Equal(want, buf[:n]), resent, err
}

// quickTimeout is for checks in which a call is to be sent again. A device that has lost a packet may take a second or two.
var quickTimeout = nfsclient.Config{Timeout: 3 * time.Second}

func mountedBadRepliesCheck(r *requesterRun) {
	r.start(fabricConfig{client: quickTimeout, server: noInvServer})
	want := pattern(9000, 1)
	f := r.file("f", want)
	for i := range badReplies {
		b := &badReplies[i]
		n, right, resent, err := r.altered(f, want, b.apply)
		if err == nil && !resent {
			r.wrong("a reply with %s is taken: READ gives %d bytes, right: %t", b.what, n, right)
		}
		r.want(err != nil || right, "after a reply with %s READ gives %d bytes, or others", b.what, n)
		r.read(f, 9000, want)
	}
}

func mountedBadError(r *requesterRun) {
	r.start(fabricConfig{client: quickTimeout, server: noInvServer})
	want := pattern(9000, 1)
	f := r.file("f", want)
	for _, n := range []int{16, 18, 20, 28} {
		_, _, resent, err := r.altered(f, want, func(o *outgoing) {
			h := rpcrdma.Header{XID: o.h.XID, Vers: 1, Credits: 8, Proc: rpcrdma.RDMA_ERROR, Err: 99}
			o.replace = append(rpcrdma.AppendHeader(nil, &h), make([]byte, 12)...)[:n]
		})
		r.want(err == nil && resent, "an RDMA_ERROR of %d bytes with code 99 ends the call: %v", n, errno(err))
		r.read(f, 9000, want)
	}
}

func noRetransmissionMounted(r *requesterRun) {
	r.start(fabricConfig{server: noInvServer})
	want := pattern(9000, 1)
	f := r.file("f", want)
	for _, garbage := range []bool{false, true} {
		_, _, _, err := r.altered(f, want, func(o *outgoing) {
			h := copyHeader(&o.h)
			if garbage {
				o.replace = message(h, rpc.AppendReply(nil, &rpc.Reply{XID: h.XID, Accept: rpc.GARBAGE_ARGS}))
				return
			}
			h.SetError(rpcrdma.ERR_CHUNK)
			o.replace = rpcrdma.AppendHeader(nil, h)
		})
		n := len(r.callsOf(nfs3.READ))
		what := map[bool]string{false: "ERR_CHUNK", true: "GARBAGE_ARGS"}[garbage]
		r.want(n == 1, "after %s %d calls were sent", what, n)
		r.want(err != nil || n > 1, "after %s READ succeeds", what)
	}
	r.tap.hook(nil)
	r.read(f, 9000, want)
}

func mountedErrors(r *requesterRun) {
	r.start(fabricConfig{server: noInvServer})
	data := pattern(9000, 3)
	f := r.file("f", data)
	for _, code := range []rpcrdma.ErrCode{rpcrdma.ERR_CHUNK, rpcrdma.ERR_VERS} {
		for _, pad := range []int{0, 8, 3000} {
			for _, p := range []nfs3.Proc{nfs3.READ, nfs3.WRITE} {
				r.tap.forget()
				r.onceOf(p, func(o *outgoing) {
					h := copyHeader(&o.h)
					h.SetError(code)
					o.replace = append(rpcrdma.AppendHeader(nil, h), make([]byte, pad)...)
				})
				var err error
				if p == nfs3.WRITE {
					_, err = r.writeFile(f, data)
				} else {
					_, err = r.readFile(f, make([]byte, 9000))
				}
				r.want(err != nil, "%v with %d bytes behind it: %v succeeds", code, pad, p)
				r.want(len(r.callsOf(p)) == 1, "%v with %d bytes behind it: %d calls", code, pad, len(r.callsOf(p)))
			}
		}
	}
	r.tap.hook(nil)
	r.read(f, 9000, data)
}

// mountedReconnects ends the connection once under load, and has the server ask for other numbers of READs on each.
func mountedReconnects(r *requesterRun) {
	r.start(fabricConfig{accept: func(n int, p verbs.ConnParam) verbs.ConnParam {
		p.ORD = []int{2, 1}[n%2]
		return p
	}})
	g := r.load(6, 20, 60000)
	r.noErr(r.s.Sleep(r.ctx, 100*sched.Millisecond), "sleep")
	r.disconnect()
	r.noErr(g.Wait(r.ctx), "wait")
	r.wantConnections(2, "a disconnect")
}

// mountedBurst makes large calls at once: none may be sent twice.
func mountedBurst(r *requesterRun) {
	r.start(fabricConfig{})
	r.tap.forget()
	r.noErr(r.load(16, 2, 128<<10).Wait(r.ctx), "wait")
	r.wantConnections(1, "a burst")
	xids := map[uint32]bool{}
	for _, c := range r.calls() {
		r.want(!xids[c.h.XID], "%v is sent twice", c.proc)
		xids[c.h.XID] = true
	}
}

// mountedWrites writes from within a buffer that goes on behind the data.
func mountedWrites(r *requesterRun) {
	r.start(fabricConfig{server: nfsserver.Config{InlineRecv: 8192}})
	all := pattern(20000, 9)
	for n := 1; n < 9000; n = max(n+1, n*8/7) {
		name := fmt.Sprintf("x%d", n)
		f := r.file(name, nil)
		got, err := f.f.WriteAt(all[n%7:][:n], 3)
		r.noErr(err, "WRITE")
		r.want(got == n, "%d of %d bytes written", got, n)
		r.want(bytes.Equal(append(make([]byte, 3), all[n%7:][:n]...), r.stored(name)), "after a WRITE of %d bytes at 3 the file has others", n)
	}
}

// mountedResend loses the replies of calls, which are sent again on a new connection.
func mountedResend(r *requesterRun) {
	r.start(fabricConfig{client: quickTimeout})
	sizes := []int{1, 1001, 3003, 9001, 100001}
	files := make([]checked, len(sizes))
	for i, n := range sizes {
		files[i] = r.file(fmt.Sprint("f", n), nil)
	}
	r.tap.forget()
	lost := map[uint32]bool{}
	r.tap.hook(func(o *outgoing) {
		if r.tap.answers(o, nfs3.WRITE) && !lost[o.h.XID] && o.conn == 1 {
			lost[o.h.XID], o.swallow = true, true
		}
	})
	g := r.s.NewGroup("calls of a check")
	for i, n := range sizes {
		g.Go("call", func() {
			got, err := r.writeFile(files[i], pattern(n, byte(n)))
			r.want(err == nil && got == n, "a WRITE of %d bytes that is sent again: %d written, %v", n, got, err)
		})
	}
	r.noErr(g.Wait(r.ctx), "wait")
	first := map[uint32]*callMsg{}
	again := 0
	l := r.callsOf(nfs3.WRITE)
	for i := range l {
		c := &l[i]
		f := first[c.h.XID]
		if f == nil {
			first[c.h.XID] = c
			continue
		}
		again++
		r.want(bytes.Equal(f.body, c.body), "a call that is sent again has other bytes")
		r.want(rpcrdma.ReadChunkLen(f.h.Reads) == rpcrdma.ReadChunkLen(c.h.Reads), "a call that is sent again has a chunk of another length")
	}
	r.want(len(first) == len(sizes) && again == len(sizes), "%d calls, of which %d were sent again; want %d", len(first), again, len(sizes))
	for i, n := range sizes {
		r.want(bytes.Equal(pattern(n, byte(n)), r.stored(files[i].name)), "other data after a WRITE of %d bytes was sent again", n)
	}
}

// mountedDrop has one SEND of the server fail, which ends the connection.
func mountedDrop(r *requesterRun) {
	for _, n := range []int{2, 7} {
		r.start(fabricConfig{})
		g := r.load(2, 4, 9000)
		seen := 0
		r.tap.set(func() {
			r.tap.failSend = func(m *sent) error {
				if seen++; seen == n {
					return errDropped
				}
				return nil
			}
		})
		r.noErr(g.Wait(r.ctx), "wait")
		r.tap.set(func() { r.tap.failSend = nil })
		r.want(seen > n, "%d messages", seen)
		r.wantConnections(2, fmt.Sprintf("message %d of the server", n))
	}
}
