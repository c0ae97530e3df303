package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.org/nfsrdma/internal/link"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// requesterRun is a check of the embedded client: its server's device and its own are tapped. Of another client only the server's is.
type requesterRun struct {
	run
	seed  uint64
	s     *sched.Sched
	tap   *wiretap
	srv   *nfsserver.Server
	m     *nfsclient.Mount
	base  context.Context
	close []func()

	client *ClientTarget // nil: ours
	mnt    *mount        // of the other client
}

// fabricConfig is what a requester's check runs on; zero fields are defaults.
type fabricConfig struct {
	client       nfsclient.Config
	server       nfsserver.Config
	device       *softroce.Personality                             // of both; nil is RoCE
	within       sched.Duration                                    // how long it may take in virtual time; 0 is checkTime
	clientDevice *softroce.Personality                             // of the client, if not that of both
	link         *link.Config                                      // nil is one of 10 Gb/s and 10 us
	accept       func(conn int, p verbs.ConnParam) verbs.ConnParam // what the server tells
}

// start mounts. It begins the check anew if it has begun.
func (r *requesterRun) start(c fabricConfig) {
	r.end()
	if r.client != nil {
		r.startMounted(c)
		return
	}
	r.s = sched.NewVirtual(r.seed)
	var cancel context.CancelFunc
	r.ctx, cancel = r.s.WithTimeout(r.base, cmp.Or(c.within, checkTime))
	// A way there and back of 20 us keeps calls outstanding for a while.
	if c.link == nil {
		c.link = &link.Config{BitsPerSecond: 1e10, Delay: 10 * time.Microsecond}
	}
	if c.device == nil {
		c.device = &softroce.RoCE
	}
	if c.clientDevice == nil {
		c.clientDevice = c.device
	}
	net := softroce.NewNetwork(r.s, softroce.NetConfig{Link: c.link})
	sdev, err := net.NewDevice("server", *c.device)
	r.noErr(err, "device")
	cdev, err := net.NewDevice("client", *c.clientDevice)
	r.noErr(err, "device")
	r.tap = &wiretap{accept: c.accept}
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	c.server.Device, c.server.Sched, c.server.Exports = r.tap.device(sdev, server), r.s, []nfsserver.Export{{FS: fs}}
	r.srv, err = nfsserver.New(c.server)
	r.noErr(err, "server")
	srv := r.srv
	r.close = append(r.close, func() {
		cancel()
		err := errors.Join(srv.Close(), fs.CheckConsistent())
		for _, d := range []verbs.Device{cdev, sdev} {
			if left := d.Resources(); left != (verbs.Resources{}) {
				err = errors.Join(err, fmt.Errorf("left on device %s: %+v", d.Name(), left))
			}
		}
		err = errors.Join(err, cdev.Close(), sdev.Close(), net.Close(), r.s.Close())
		r.want(err == nil, "at the end: %v", err)
	})
	c.client.Device, c.client.Sched, c.client.Addr = r.tap.device(cdev, client), r.s, srv.Addr()
	r.m, err = nfsclient.New(r.ctx, c.client)
	r.noErr(err, "mount")
}

// end closes what start made.
func (r *requesterRun) end() {
	if r.m != nil {
		r.tap.hook(nil)
		r.want(r.m.Close() == nil, "the client does not close")
		r.m = nil
	}
	if r.mnt != nil {
		r.endMounted()
	}
	for i := len(r.close) - 1; i >= 0; i-- {
		r.close[i]()
	}
	r.close = nil
}

// file makes a file with data in it.
func (r *requesterRun) file(name string, data []byte) checked {
	if r.client != nil {
		r.put(name, data)
		return checked{f: r.open(name), name: name}
	}
	c, err := r.m.Create(r.ctx, r.m.Root(), name, nfsclient.CreateHow{Mode: nfsclient.UNCHECKED, Attr: nfsclient.Sattr{SetMode: true, Mode: 0o644}})
	r.noErr(err, "CREATE")
	for at := 0; at < len(data); {
		n := min(len(data)-at, r.m.WSize())
		w, err := r.m.Write(r.ctx, c.FH, uint64(at), data[at:at+n], nfsclient.FILE_SYNC)
		r.noErr(err, "WRITE")
		at += w.Count
	}
	return checked{fh: c.FH, name: name}
}

// read reads and compares.
func (r *requesterRun) read(f checked, n int, want []byte) {
	buf := make([]byte, n)
	got, err := r.readFile(f, buf)
	r.noErr(err, "READ")
	r.want(bytes.Equal(want[:min(n, len(want))], buf[:got]), "READ of %d bytes gives other data", n)
}

// manyNulls makes calls at the same time.
func (r *requesterRun) manyNulls(n int) {
	g := r.s.NewGroup("calls of a check")
	for range n {
		g.Go("call", func() {
			if err := r.m.Null(r.ctx); err != nil {
				r.wrong("NULL: %v", err)
			}
		})
	}
	r.noErr(g.Wait(r.ctx), "wait")
}

// session makes calls of every procedure, with data of many lengths.
func (r *requesterRun) session() {
	m, ctx, root := r.m, r.ctx, r.m.Root()
	ok := func(err error) { r.noErr(err, "session") }
	ok(m.Null(ctx))
	_, err := m.GetAttr(ctx, root)
	ok(err)
	_, err = m.Access(ctx, root, 0x1f)
	ok(err)
	_, err = m.FSStat(ctx, root)
	ok(err)
	_, err = m.PathConf(ctx, root)
	ok(err)
	set := nfsclient.Sattr{SetMode: true, Mode: 0o755}
	d, err := m.Mkdir(ctx, root, "d", &set)
	ok(err)
	for i, n := range []int{0, 1, 3, 100, 1001, 4096, 5001, 65537, 262144} {
		n = min(n, m.RSize(), m.WSize())
		data := pattern(n, byte(i))
		fh := r.file(fmt.Sprintf("f%d", i), data)
		_, err := m.Commit(ctx, fh.fh, 0, 0)
		ok(err)
		r.read(fh, max(n, 1), data)
		r.read(fh, min(n+700, m.RSize()), data)
	}
	for i, n := range []int{5, 900, 1023} {
		name, target := fmt.Sprintf("s%d", i), strings.Repeat("t", n)
		l, err := m.Symlink(ctx, d.FH, name, target, &set)
		ok(err)
		got, err := m.ReadLink(ctx, l.FH)
		ok(err)
		r.want(got == target, "READLINK gives another path")
	}
	for i := range 40 {
		r.file(fmt.Sprintf("name-%d-%s", i, strings.Repeat("n", 200)), nil)
	}
	for _, n := range []uint32{1024, 8192, 32768} {
		_, err = m.ReadDir(ctx, root, 0, nfsclient.Verf{}, n)
		ok(err)
		_, err = m.ReadDirPlus(ctx, root, 0, nfsclient.Verf{}, n, n)
		ok(err)
	}
	l, err := m.Lookup(ctx, root, "f1")
	ok(err)
	_, err = m.SetAttr(ctx, l.FH, &set, nil)
	ok(err)
	_, err = m.Link(ctx, l.FH, d.FH, "hard")
	ok(err)
	ok(m.Rename(ctx, root, "f1", d.FH, "renamed"))
	_, err = m.Remove(ctx, d.FH, "renamed")
	ok(err)
	_, err = m.Mkdir(ctx, d.FH, "e", &set)
	ok(err)
	_, err = m.Rmdir(ctx, d.FH, "e")
	ok(err)
}

// callMsg is a call of the client as the tap saw it.
type callMsg struct {
	sent
	rpc  rpc.Call
	args []byte
	nfs  bool
	proc nfs3.Proc
}

// calls decodes what the client sent; a long call has no arguments here.
func (r *requesterRun) calls() []callMsg {
	l := r.decoded(r.tap.sentBy(client))
	r.must(len(l) > 0, "no call was seen")
	return l
}

func (r *requesterRun) decoded(msgs []sent) []callMsg {
	var l []callMsg
	for _, m := range msgs {
		if !r.want(m.ok, "a header that does not parse: %x", m.bytes[:min(len(m.bytes), 64)]) {
			continue
		}
		c := callMsg{sent: m}
		if m.h.Proc == rpcrdma.RDMA_MSG {
			n, err := rpc.ConsumeCall(m.body, &c.rpc)
			if !r.want(err == nil, "an RPC call that does not parse: %v", err) {
				continue
			}
			c.args, c.nfs, c.proc = m.body[n:], c.rpc.Prog == nfs3.Program, nfs3.Proc(c.rpc.Proc)
		}
		l = append(l, c)
	}
	return l
}

// eachCall looks at the calls of a session.
func (r *requesterRun) eachCall(c fabricConfig, f func(*callMsg)) {
	if r.client != nil {
		r.eachMounted(c, f)
		return
	}
	r.start(c)
	r.session()
	l := r.calls()
	for i := range l {
		f(&l[i])
	}
}

// withContext runs f with a context that is cancelled after d.
func (r *requesterRun) withContext(d time.Duration, f func(ctx context.Context)) {
	ctx, cancel := r.s.WithTimeout(r.ctx, sched.FromStd(d))
	defer cancel()
	f(ctx)
}
