package conformance

import (
	"encoding/binary"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
)

// outstanding walks through what both sides sent, and gives each call's place: how many calls of its connection are
// unanswered with it, and what the last reply granted, 0 if none came.
func (r *requesterRun) outstanding(f func(m *sent, calls, granted int)) {
	conn, calls, granted := 0, 0, 0
	l := r.tap.all()
	for i := range l {
		m := &l[i]
		if m.bytes == nil {
			continue
		}
		if m.conn != conn {
			conn, calls, granted = m.conn, 0, 0
		}
		if m.from == server {
			calls--
			granted = int(m.h.Credits)
			continue
		}
		calls++
		f(m, calls, granted)
	}
}

func callsWithinCredits(r *requesterRun) {
	for _, credits := range []int{1, 3, 8} {
		r.start(fabricConfig{client: nfsclient.Config{Credits: 32}, server: nfsserver.Config{Credits: credits}})
		r.manyNulls(100)
		most := 0
		r.outstanding(func(_ *sent, calls, granted int) {
			most = max(most, calls)
			r.want(granted == 0 || calls <= granted, "%d calls are outstanding with %d credits", calls, granted)
		})
		r.want(most == credits, "%d calls at once of the %d that were granted", most, credits)
	}
}

func receivesForAllReplies(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{Credits: 16}})
	r.manyNulls(100)
	replies, conn := 0, 0
	l := r.tap.all()
	calls := 0
	for i := range l {
		switch m := &l[i]; {
		case m.bytes == nil:
		case m.from == server:
			replies++
			calls--
		default:
			if m.conn != conn {
				conn, replies, calls = m.conn, 0, 0
			}
			calls++
			r.want(m.recvs-replies >= calls, "%d receives are posted for %d calls", m.recvs-replies, calls)
		}
	}
	r.must(replies > 100, "%d replies were seen", replies)
}

func oneCreditAtFirst(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{Credits: 16}})
	r.tap.forget()
	r.disconnect()
	r.manyNulls(16)
	firsts := 0
	r.outstanding(func(m *sent, calls, granted int) {
		if m.conn > 1 && granted == 0 {
			firsts++
			r.want(calls == 1, "%d calls before the first reply", calls)
		}
	})
	r.want(firsts == 1, "%d calls before the first reply of the second connection", firsts)
}

// wantMessages wants the client's longest message to be of n bytes or a little less.
func (r *requesterRun) wantMessages(n int) {
	most := 0
	for _, m := range r.tap.sentBy(client) {
		most = max(most, len(m.bytes))
	}
	r.want(most <= n, "a message of %d bytes, the threshold is %d", most, n)
	room := 64
	if r.client != nil { // which may leave room for the longest header that it could send
		room = n / 2
	}
	r.want(most > n-room, "no message is longer than %d bytes, the threshold is %d", most, n)
}

// inlineWrites writes what just goes inline at each threshold.
func (r *requesterRun) inlineWrites(name string) {
	f := r.file(name, nil)
	first, last, step := 700, 8200, 20
	if r.client != nil {
		first, last, step = 200, 4200, 100 // on a slow machine
	}
	for n := first; n < last; n += step {
		_, err := r.writeFile(f, make([]byte, n))
		r.noErr(err, "WRITE")
	}
}

func requester1024(r *requesterRun) {
	r.start(fabricConfig{accept: func(_ int, p verbs.ConnParam) verbs.ConnParam {
		p.PrivateData = nil
		return p
	}})
	r.tap.forget()
	r.inlineWrites("f")
	r.wantMessages(rpcrdma.DefaultInline)
}

func requesterLesser(r *requesterRun) {
	for _, c := range []struct{ client, server, want int }{{4096, 1024, 1024}, {2048, 8192, 2048}, {8192, 4096, 4096}, {4096, 4096, 4096}} {
		r.start(fabricConfig{client: nfsclient.Config{InlineSend: c.client}, server: nfsserver.Config{InlineRecv: c.server}})
		r.tap.forget()
		r.inlineWrites("f")
		r.wantMessages(c.want)
		b := r.tap.conns[0].PrivateData
		r.must(len(b) >= 8, "%d bytes of private data", len(b))
		r.want(int(b[6]) == c.client/1024-1, "send size %d for %d bytes", b[6], c.client)
	}
}

func requesterPrivateData(r *requesterRun) {
	r.start(fabricConfig{accept: func(n int, p verbs.ConnParam) verbs.ConnParam {
		d := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}
		if n > 1 {
			d.RecvSize = 2048
		}
		p.PrivateData = rpcrdma.AppendPrivateData(nil, d)
		p.PrivateData[5] |= 0xfe // reserved, to be ignored
		return p
	}})
	r.tap.forget()
	r.inlineWrites("f")
	r.wantMessages(4096)
	b := r.tap.conns[0].PrivateData
	r.must(len(b) >= 8, "%d bytes of private data", len(b))
	r.want(binary.BigEndian.Uint32(b) == 0xf6ab0e18, "magic %x", b[:4])
	r.want(b[4] == 1, "version %d", b[4])
	r.want(b[5]&0xfe == 0, "reserved flags %#x are not zero", b[5])
	r.disconnect()
	r.null()
	r.tap.forget()
	r.inlineWrites("g")
	r.wantMessages(2048)
}

func requesterInvalidPrivate(r *requesterRun) {
	for at := range []int{0, 4} {
		r.start(fabricConfig{accept: func(_ int, p verbs.ConnParam) verbs.ConnParam {
			p.PrivateData = append([]byte(nil), p.PrivateData...)
			p.PrivateData[at]++
			return p
		}})
		r.tap.forget()
		r.inlineWrites("f")
		r.wantMessages(rpcrdma.DefaultInline)
		r.want(!r.m.Negotiated().RemoteInvalidation, "remote invalidation is taken for agreed")
	}
}

// invalidationFlag wants the flag to say what was configured, and the server to obey it.
func invalidationFlag(r *requesterRun) {
	for _, off := range []bool{false, true} {
		r.start(fabricConfig{client: nfsclient.Config{NoRemoteInvalidation: off, RegMode: nfsclient.FastReg}})
		fh := r.file("f", pattern(9000, 1))
		r.tap.forget()
		r.read(fh, 9000, pattern(9000, 1))
		b := r.tap.conns[0].PrivateData
		r.must(len(b) >= 8, "%d bytes of private data", len(b))
		r.want(b[5]&1 == 0 == off, "flags %#x", b[5])
		invs := 0
		for _, m := range r.tap.sentBy(server) {
			if m.op == verbs.OpSendWithInv {
				invs++
				keys := segments(&r.calls()[0].h)
				r.want(len(keys) > 0 && keys[0].Handle == m.inv, "key %#x is not of the call", m.inv)
			}
		}
		r.want(invs == 1 != off, "%d keys were invalidated", invs)
	}
}

// cannotFenceCloses cancels a READ whose memory a global key covers.
func cannotFenceCloses(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{RegMode: nfsclient.AllPhysical}})
	fh := r.file("f", pattern(9000, 1))
	r.cancelledRead(fh, make([]byte, 9000))
	r.null()
	l := r.tap.sentBy(client)
	r.want(l[len(l)-1].conn == 2, "the connection stays, though the server may still write to the memory")
}
