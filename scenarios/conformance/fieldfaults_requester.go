package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// fewSGEs reads inline, up to 56 KiB, from a device that can send no more than 2 pieces at once.
func fewSGEs(r *requesterRun) {
	p := softroce.RoCE
	p.Attr.MaxSGE, p.Attr.MaxSGERd = 2, 2
	r.start(fabricConfig{device: &p, server: nfsserver.Config{InlineSend: 65536},
		client: nfsclient.Config{RegMode: nfsclient.Bounce, InlineRecv: 65536, InlineSend: 65536}})
	data := pattern(100000, 5)
	fh := r.file("f", data)
	for _, off := range []int{0, 1, 4095, 4097, 9999} {
		for _, n := range []int{1, 4095, 8193, 20001, 57344} {
			buf := make([]byte, n)
			got, _, err := r.m.Read(r.ctx, fh.fh, uint64(off), buf)
			r.noErr(err, "READ")
			r.want(bytes.Equal(data[off:off+got], buf[:got]) && got > 0, "READ of %d at %d: other data", n, off)
		}
	}
}

// dataComesInline has the server answer a READ inline although there is a Write chunk, which comes back unused.
func dataComesInline(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{NoRemoteInvalidation: true}})
	stored, data := pattern(9000, 3), pattern(9000, 77) // what comes inline is not what the server has written
	fh := r.file("f", stored)
	for _, n := range []int{1, 3, 1000, 3001} {
		r.once(func(o *outgoing) {
			h := copyHeader(&o.h)
			for i := range h.Writes.Chunk(0) {
				h.Writes.Chunk(0)[i].Length = 0
			}
			var rep rpc.Reply
			var res nfs3.ReadRes // with the server's attributes
			if at, err := rpc.ConsumeReply(o.body, &rep); err == nil {
				_, _, _ = nfs3.ConsumeReadResHead(o.body[at:], &res)
			}
			res.Status, res.Count, res.EOF, res.Data = nfs3.NFS3_OK, uint32(n), true, data[:n]
			o.replace = message(h, nfs3.AppendReadRes(rpc.AppendReplySuccess(nil, h.XID), &res))
		})
		buf := make([]byte, 8192)
		got, err := r.readFile(fh, buf)
		r.noErr(err, "READ")
		r.want(got == n && bytes.Equal(data[:n], buf[:got]), "a READ that is answered inline with %d bytes gives %d, or others", n, got)
	}
	r.read(fh, 8192, stored)
}

func errorsEndCalls(r *requesterRun) {
	r.start(fabricConfig{client: noInv})
	data := pattern(9000, 3)
	fh := r.file("f", data)
	for _, code := range []rpcrdma.ErrCode{rpcrdma.ERR_CHUNK, rpcrdma.ERR_VERS} {
		for _, pad := range []int{0, 8, 3000} {
			for _, write := range []bool{false, true} {
				r.once(func(o *outgoing) {
					h := copyHeader(&o.h)
					h.SetError(code)
					o.replace = append(rpcrdma.AppendHeader(nil, h), make([]byte, pad)...)
				})
				var err error
				if write {
					_, err = r.m.Write(r.ctx, fh.fh, 0, data, nfsclient.FILE_SYNC)
				} else {
					_, err = r.readFile(fh, make([]byte, 9000))
				}
				var e *nfsclient.RDMAError
				r.want(errors.As(err, &e) && e.Code == code, "%v with %d bytes behind it ends a call with %v", code, pad, err)
			}
		}
	}
	r.read(fh, 9000, data)
}

// load is calls at the same time: each writes a part of a file of its own, and reads it back.
func (r *requesterRun) load(calls, rounds, size int) *sched.Group {
	files := make([]checked, calls)
	for i := range files {
		files[i] = r.file(fmt.Sprintf("load%d", i), nil)
	}
	g := r.s.NewGroup("calls of a check")
	for i := range calls {
		g.Go("call", func() {
			buf := make([]byte, size)
			for k := range rounds {
				data := pattern(size, byte(i+31*k))
				w, err := r.writeFile(files[i], data)
				if !r.want(err == nil && w == size, "WRITE: %d bytes of %d, %v", w, size, err) {
					return
				}
				n, err := r.readFile(files[i], buf)
				if !r.want(err == nil && bytes.Equal(data, buf[:n]), "READ of what was written: %d bytes, %v", n, err) {
					return
				}
			}
		})
	}
	return g
}

// wantConnections wants n connections to have been made.
func (r *requesterRun) wantConnections(n int, what string) {
	r.want(r.tap.count() == n, "%s: %d connections, want %d", what, r.tap.count(), n)
}

// quick has short waits between attempts to connect.
func quick(c nfsclient.Config) nfsclient.Config {
	c.ReconnectMin, c.ReconnectMax = time.Millisecond, 10*time.Millisecond
	return c
}

// loadTime is far more than a load takes in virtual time. A client that connects again and again for nothing would go on
// for the whole time of the check.
const loadTime = 5 * sched.Second

func reconnectsUnderLoad(r *requesterRun) {
	r.start(fabricConfig{client: quick(nfsclient.Config{Credits: 16}), within: loadTime})
	g := r.load(16, 40, 9000)
	for range 10 {
		r.noErr(r.s.Sleep(r.ctx, 300*sched.Microsecond), "sleep")
		r.m.Disconnect()
	}
	r.noErr(g.Wait(r.ctx), "wait")
	// Each SEND of the client finds receives for all calls that are out.
	conn, calls, replies := 0, 0, 0
	l := r.tap.all()
	for i := range l {
		m := &l[i]
		if m.bytes == nil {
			continue
		}
		if m.from == client {
			if m.conn != conn {
				conn, calls, replies = m.conn, 0, 0
			}
			calls++
			r.want(m.recvs-replies >= calls-replies, "connection %d: %d receives were posted for %d calls", m.conn, m.recvs, calls)
		} else if m.conn == conn {
			replies++
		}
	}
	r.wantConnections(11, "ten disconnects")
}

func disconnectsUnderLoad(r *requesterRun) {
	for _, mode := range []nfsclient.RegMode{nfsclient.FastReg, nfsclient.MemWindow, nfsclient.Register} {
		r.start(fabricConfig{client: quick(nfsclient.Config{RegMode: mode}), within: loadTime})
		g := r.load(8, 30, 20000)
		disconnects := 0
		for i := range 12 {
			r.noErr(r.s.Sleep(r.ctx, sched.Duration(100+37*i)*sched.Microsecond), "sleep")
			r.m.Disconnect()
			disconnects++
		}
		r.noErr(g.Wait(r.ctx), "wait")
		// A failed registration would end a connection more.
		r.wantConnections(1+disconnects, mode.String())
	}
}

func eventBeforeEstablished(r *requesterRun) {
	for _, ev := range []verbs.CMEventType{verbs.CMAddrChange, verbs.CMDisconnected, verbs.CMDeviceRemoval} {
		r.start(fabricConfig{client: quick(nfsclient.Config{})})
		r.tap.set(func() {
			r.tap.onConnect = func(conn int, event func(verbs.CMEventType)) {
				if conn < 4 {
					event(ev)
					event(ev)
				}
			}
		})
		r.m.Disconnect()
		r.noErr(r.m.Null(r.ctx), "NULL")
		r.wantConnections(4, ev.String())
	}
}

func postingReceivesFails(r *requesterRun) {
	for n := 1; n < 12; n += 2 {
		r.start(fabricConfig{client: quick(nfsclient.Config{Credits: 8})})
		posts := 0
		r.tap.set(func() {
			r.tap.failRecv = func(int) error {
				if posts++; posts == n {
					return verbs.ErrQueueFull
				}
				return nil
			}
		})
		r.noErr(r.load(8, 20, 5000).Wait(r.ctx), "wait")
		r.want(posts > n, "%d posts of receives", posts)
		r.wantConnections(2, fmt.Sprintf("post %d failed", n))
	}
}

func smallSendQueue(r *requesterRun) {
	for _, noInv := range []bool{false, true} {
		r.start(fabricConfig{client: nfsclient.Config{SQDepth: 4, NoRemoteInvalidation: noInv}})
		r.noErr(r.load(40, 5, 9000).Wait(r.ctx), "wait")
		r.wantConnections(1, "a send queue of 4")
		r.wantCounterPositive("empty_sendctx_q")
	}
}

func (r *requesterRun) counter(name string) uint64 {
	for _, c := range r.m.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	r.must(false, "no counter %s", name)
	return 0
}

func (r *requesterRun) wantCounterPositive(name string) {
	r.want(r.counter(name) > 0, "%s is 0: nothing had to wait", name)
}

func fewRegions(r *requesterRun) {
	p := softroce.RoCE
	p.Attr.MaxMR, p.Attr.MaxFastRegPages = 8, 4
	r.start(fabricConfig{clientDevice: &p, client: nfsclient.Config{Credits: 64}})
	r.tap.forget()
	g := r.load(30, 3, 9*4096)
	r.noErr(g.Wait(r.ctx), "wait")
	r.wantConnections(1, "a burst")
	r.want(r.counter("retransmissions") == 0, "%d calls were sent again", r.counter("retransmissions"))
}

// exactWrites writes from within a buffer that goes on behind the data.
func exactWrites(r *requesterRun) {
	r.start(fabricConfig{client: nfsclient.Config{InlineSend: 8192}, server: nfsserver.Config{InlineRecv: 8192}})
	all := pattern(20000, 9)
	buf := make([]byte, 20000)
	for n := 1; n < 9000; n = max(n+1, n*8/7) {
		fh := r.file(fmt.Sprintf("x%d", n), nil)
		at := n % 7
		w, err := r.m.Write(r.ctx, fh.fh, 3, all[at:at+n], nfsclient.FILE_SYNC)
		r.noErr(err, "WRITE")
		r.want(w.Count == n, "%d of %d bytes written", w.Count, n)
		got, eof, err := r.m.Read(r.ctx, fh.fh, 0, buf)
		r.noErr(err, "READ")
		want := append(make([]byte, 3), all[at:at+n]...)
		r.want(eof && bytes.Equal(want, buf[:got]), "after a WRITE of %d bytes at 3 the file has %d bytes, or others", n, got)
	}
}

func irdChanges(r *requesterRun) {
	r.start(fabricConfig{client: quick(nfsclient.Config{MaxDataSegs: 64, RegMode: nfsclient.AllPhysical}), accept: func(n int, p verbs.ConnParam) verbs.ConnParam {
		p.ORD = []int{1, 16, 2}[n%3] // READs that the server would have outstanding
		return p
	}})
	g := r.load(6, 12, 200000)
	for i := range 10 {
		r.noErr(r.s.Sleep(r.ctx, sched.Duration(200+91*i)*sched.Microsecond), "sleep")
		r.m.Disconnect()
	}
	r.noErr(g.Wait(r.ctx), "wait")
	// Some disconnects meet no connection.
	r.want(r.tap.count() >= 6 && r.tap.count() <= 11, "%d connections after ten disconnects", r.tap.count())
}

func lossyLink(r *requesterRun) {
	r.start(fabricConfig{link: &link.Config{BitsPerSecond: 1e10, Delay: 10 * time.Microsecond, Loss: 0.01, Duplicate: 0.01, Reorder: 0.01},
		client: nfsclient.Config{RetryCnt: 7}})
	r.noErr(r.load(8, 10, 60000).Wait(r.ctx), "wait")
	r.noErr(r.load(8, 20, 1500).Wait(r.ctx), "wait")
}

// exactResend loses replies, so that calls of every kind are sent again.
func exactResend(r *requesterRun) {
	c := quick(nfsclient.Config{Timeout: time.Second})
	r.start(fabricConfig{client: c})
	fh := r.file("f", nil)
	for i, n := range []int{1, 1001, 3003, 9001, 100001} {
		data := pattern(n, byte(n))
		r.tap.forget()
		r.once(func(o *outgoing) { o.swallow = true })
		w, err := r.m.Write(r.ctx, fh.fh, 0, data, nfsclient.FILE_SYNC)
		r.noErr(err, "WRITE")
		r.want(w.Count == n, "%d of %d bytes written", w.Count, n)
		r.wantConnections(i+2, "a lost reply")
		l := r.calls()
		if r.want(len(l) == 2, "%d calls were sent, want 2", len(l)) {
			r.want(l[0].h.XID == l[1].h.XID, "the second has another XID")
			r.want(bytes.Equal(l[0].body, l[1].body), "the second has other bytes")
			r.want(rpcrdma.ReadChunkLen(l[0].h.Reads) == rpcrdma.ReadChunkLen(l[1].h.Reads), "the second has a chunk of another length")
		}
		buf := make([]byte, n)
		got, err := r.readFile(fh, buf)
		r.noErr(err, "READ")
		r.want(got == n && bytes.Equal(data, buf), "other data after a WRITE of %d bytes was sent again", n)
	}
}

var errDropped = errors.New("dropped by the check")

// dropAtAnyMessage has the n-th SEND of either side fail, for every n of some calls.
func dropAtAnyMessage(r *requesterRun) {
	for _, who := range []side{client, server} {
		for n := 1; n <= 14; n++ {
			r.start(fabricConfig{client: quick(nfsclient.Config{Credits: 4})})
			seen := 0
			r.tap.set(func() {
				r.tap.failSend = func(m *sent) error {
					if m.from == who {
						if seen++; seen == n {
							return errDropped
						}
					}
					return nil
				}
			})
			r.noErr(r.load(2, 4, 9000).Wait(r.ctx), "wait")
			r.want(seen > n, "%d messages", seen)
			r.wantConnections(2, fmt.Sprintf("message %d of side %d", n, who))
		}
	}
}
