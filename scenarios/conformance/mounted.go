package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/verbs"
)

// ClientTarget is a client to check, of which nothing is known but that it mounts a server and is then used through files. Its
// server is the embedded one on Device, tapped.
type ClientTarget struct {
	Device verbs.Device // stays the caller's
	Sched  *sched.Sched // live; stays the caller's
	Host   string       // the address of Device
	Port   int          // of the first server; each server takes two ports, and the next one the two behind them
	// Mount mounts a server's export "/". A call must fail once it was without an answer for timeout, and was sent again
	// without one; attributes must not be cached.
	Mount func(ctx context.Context, m MountTarget) (*Mounted, error)
	// Direct is the flag with which os.OpenFile gives files whose data is not cached (O_DIRECT).
	Direct int
	// ReadLink runs a process that reads a symbolic link, and ends it once ctx has ended.
	ReadLink func(ctx context.Context, name string) error

	servers  int
	sessions map[int][]sent // calls of a session, by the longest inline reply
	done     map[*mountedCheck]*CheckResult
}

// MountTarget says what to mount.
type MountTarget struct {
	Host      string
	Port      int // NFS over RDMA
	MountPort int // MOUNT over TCP
	Timeout   time.Duration
}

// Mounted is a mount.
type Mounted struct {
	Dir     string
	Unmount func() error
}

// defaultTimeout of a client that is checked: long for a call on a slow machine.
const defaultTimeout = 5 * time.Second

// slowFS answers GETATTR after a while, so that calls are outstanding together.
type slowFS struct {
	*memfs.FS
	s     *sched.Sched
	delay atomic.Int64 // sched.Duration
}

func (f *slowFS) Attr(ctx context.Context, id vfs.ID, a *vfs.Attr) error {
	if d := f.delay.Load(); d > 0 {
		_ = f.s.Sleep(ctx, sched.Duration(d))
	}
	return f.FS.Attr(ctx, id, a)
}

// mount is a client's mount of a check's server.
type mount struct {
	*Mounted
	fs    *slowFS
	files []*os.File
}

// startMounted is start for a client that is not ours.
func (r *requesterRun) startMounted(c fabricConfig) {
	t := r.client
	r.s = t.Sched
	var cancel context.CancelFunc
	r.ctx, cancel = r.s.WithTimeout(r.base, checkTime)
	r.tap = &wiretap{accept: c.accept, receives: true}
	fs := &slowFS{FS: memfs.New(memfs.Options{RootMode: 0o777, Now: wallClock}), s: r.s}
	port := t.Port + 2*t.servers
	t.servers++
	c.server.Device, c.server.Sched, c.server.Exports = r.tap.device(t.Device, server), r.s, []nfsserver.Export{{FS: fs}}
	c.server.Addr, c.server.TCP, c.server.Boot = fmt.Sprintf("%s:%d", t.Host, port), []string{fmt.Sprintf(":%d", port+1)}, uint64(port)
	if n := c.client.InlineRecv; n > 0 {
		c.server.InlineSend = n
	}
	c.server.NoRemoteInvalidation = c.server.NoRemoteInvalidation || c.client.NoRemoteInvalidation
	srv, err := nfsserver.New(c.server)
	r.noErr(err, "server")
	r.srv = srv
	r.close = append(r.close, func() {
		cancel()
		err := errors.Join(srv.Close(), fs.CheckConsistent())
		r.want(err == nil, "at the end: %v", err)
	})
	m := MountTarget{Host: t.Host, Port: port, MountPort: port + 1, Timeout: c.client.Timeout}
	if m.Timeout == 0 {
		m.Timeout = defaultTimeout
	}
	at, err := t.Mount(r.ctx, m)
	r.noErr(err, "mount")
	r.mnt = &mount{Mounted: at, fs: fs}
}

func wallClock() vfs.Time {
	t := time.Now()
	return vfs.Time{Sec: uint32(t.Unix()), Nsec: uint32(t.Nanosecond())}
}

// endMounted unmounts.
func (r *requesterRun) endMounted() {
	r.tap.hook(nil)
	r.mnt.fs.delay.Store(0)
	for _, f := range r.mnt.files {
		_ = f.Close()
	}
	err := r.mnt.Unmount()
	r.want(err == nil, "unmount: %v", err)
	r.mnt = nil
}

// put makes a file at the server, which the client has not heard of.
func (r *requesterRun) put(name string, data []byte) {
	fs := r.mnt.fs
	var a vfs.Attr
	set := vfs.SetAttr{SetMode: true, Mode: 0o666}
	r.noErr(fs.Create(r.ctx, fs.Root(), name, vfs.Unchecked, 0, &set, &a, nil), "a file at the server")
	if len(data) > 0 {
		r.noErr(fs.Write(r.ctx, a.ID, 0, data, true, nil), "a file at the server")
	}
}

// stored gives what a file has at the server.
func (r *requesterRun) stored(name string) []byte {
	fs := r.mnt.fs
	var a vfs.Attr
	r.noErr(fs.Lookup(r.ctx, fs.Root(), name, &a), "a file at the server")
	b := make([]byte, a.Size)
	n, _, err := fs.Read(r.ctx, a.ID, 0, b, &a)
	r.noErr(err, "a file at the server")
	return b[:n]
}

func (r *requesterRun) path(name string) string { return filepath.Join(r.mnt.Dir, name) }

// open opens a file whose data goes past the client's cache.
func (r *requesterRun) open(name string) *os.File {
	f, err := os.OpenFile(r.path(name), os.O_RDWR|os.O_CREATE|r.client.Direct, 0o644)
	r.noErr(err, "open")
	r.mnt.files = append(r.mnt.files, f)
	return f
}

// checked is a file that a check made, at either kind of client.
type checked struct {
	fh   nfsclient.FH
	f    *os.File
	name string
}

// readFile reads once, from the beginning.
func (r *requesterRun) readFile(c checked, b []byte) (int, error) {
	if c.f == nil {
		n, _, err := r.m.Read(r.ctx, c.fh, 0, b)
		return n, err
	}
	if _, err := c.f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := c.f.Read(b)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// writeFile writes once, at the beginning.
func (r *requesterRun) writeFile(c checked, b []byte) (int, error) {
	if c.f == nil {
		w, err := r.m.Write(r.ctx, c.fh, 0, b, nfsclient.UNSTABLE)
		return w.Count, err
	}
	return c.f.WriteAt(b, 0)
}

// null makes one call and wants it to succeed.
func (r *requesterRun) null() {
	if r.client == nil {
		r.noErr(r.m.Null(r.ctx), "NULL")
		return
	}
	_, err := os.Stat(r.mnt.Dir)
	r.noErr(err, "stat")
}

// disconnect ends the connection: the embedded client's side does, or the other client's server.
func (r *requesterRun) disconnect() {
	if r.client == nil {
		r.m.Disconnect()
		return
	}
	r.srv.Disconnect()
}

// manyStats makes GETATTRs at the same time, each answered after 10 ms.
func (r *requesterRun) manyStats(tasks, rounds int) {
	r.prepareStats(tasks)
	r.stats(tasks, rounds)
}

func statName(i int) string { return fmt.Sprint("stat", i) }

// prepareStats has the client look up what stats asks for.
func (r *requesterRun) prepareStats(n int) {
	for i := range n {
		r.put(statName(i), nil)
		_, err := os.Stat(r.path(statName(i)))
		r.noErr(err, "stat")
	}
}

func (r *requesterRun) stats(tasks, rounds int) {
	r.mnt.fs.delay.Store(int64(10 * sched.Millisecond))
	defer r.mnt.fs.delay.Store(0)
	g := r.s.NewGroup("calls of a check")
	for i := range tasks {
		g.Go("call", func() {
			for range rounds {
				if _, err := os.Stat(r.path(statName(i))); err != nil {
					r.wrong("stat: %v", err)
				}
			}
		})
	}
	r.noErr(g.Wait(r.ctx), "wait")
}

// link makes a symbolic link of n bytes at the server.
func (r *requesterRun) link(name string, n int) {
	fs := r.mnt.fs
	set := vfs.SetAttr{SetMode: true, Mode: 0o777}
	var a vfs.Attr
	r.noErr(fs.Symlink(r.ctx, fs.Root(), name, strings.Repeat("t", n), &set, &a, nil), "a link at the server")
}

// mountedSession makes calls of every procedure that file operations lead to.
func (r *requesterRun) mountedSession() {
	for i, n := range []int{5, 900, 1023, 4000} {
		r.link(fmt.Sprintf("there%d", i), n)
	}
	for i := range 60 {
		r.put(fmt.Sprintf("name-%d-%s", i, strings.Repeat("n", 200)), nil)
	}
	ok := func(err error) { r.noErr(err, "session") }
	r.null()
	ok(os.Mkdir(r.path("d"), 0o755))
	for i, n := range []int{1, 3, 100, 1001, 4096, 5001, 65537, 262144} {
		data := pattern(n, byte(i))
		f := r.open(fmt.Sprintf("f%d", i))
		_, err := f.WriteAt(data, 0)
		ok(err)
		buf := make([]byte, n+700)
		got, err := f.ReadAt(buf, 0)
		r.want((err == nil || err == io.EOF) && string(buf[:got]) == string(data), "a file of %d bytes gives %d, or others: %v", n, got, err)
	}
	ok(os.WriteFile(r.path("buffered"), pattern(70001, 1), 0o644))
	b, err := os.ReadFile(r.path("buffered"))
	r.want(err == nil && string(b) == string(pattern(70001, 1)), "a file through the cache has %d bytes, or others: %v", len(b), err)
	for i, n := range []int{5, 900, 1023, 4000} {
		ok(os.Symlink(strings.Repeat("t", n), r.path(fmt.Sprintf("d/s%d", i))))
		got, err := os.Readlink(r.path(fmt.Sprintf("there%d", i)))
		r.want(err == nil && got == strings.Repeat("t", n), "a link of %d bytes gives %d, or others: %v", n, len(got), err)
	}
	l, err := os.ReadDir(r.mnt.Dir)
	ok(err)
	r.want(len(l) >= 60, "%d names in a directory", len(l))
	ok(os.Chmod(r.path("f1"), 0o600))
	ok(os.Truncate(r.path("f1"), 2))
	ok(os.Link(r.path("f1"), r.path("d/hard")))
	ok(os.Rename(r.path("f2"), r.path("d/renamed")))
	ok(os.Remove(r.path("d/renamed")))
	ok(os.Mkdir(r.path("d/e"), 0o755))
	ok(os.Remove(r.path("d/e")))
}

// eachMounted looks at the calls of a session, which is held once for all checks.
func (r *requesterRun) eachMounted(c fabricConfig, f func(*callMsg)) {
	t := r.client
	l, ok := t.sessions[c.client.InlineRecv]
	if !ok {
		r.start(c)
		r.mountedSession()
		l = r.tap.sentBy(client)
		if t.sessions == nil {
			t.sessions = map[int][]sent{}
		}
		t.sessions[c.client.InlineRecv] = l
	}
	calls := r.decoded(l)
	for i := range calls {
		f(&calls[i])
	}
}

// callsOf gives the calls of a procedure that were seen.
func (r *requesterRun) callsOf(p nfs3.Proc) []callMsg {
	var l []callMsg
	for _, c := range r.decoded(r.tap.sentBy(client)) {
		if c.nfs && c.proc == p {
			l = append(l, c)
		}
	}
	return l
}

// onceOf hooks the next reply to a call of a procedure.
func (r *requesterRun) onceOf(p nfs3.Proc, f func(*outgoing)) {
	done := false
	r.tap.hook(func(o *outgoing) {
		if !done && r.tap.answers(o, p) {
			done = true
			f(o)
		}
	})
}

// answers says whether a message of the server answers a call of the procedure. The tap is locked.
func (t *wiretap) answers(o *outgoing, p nfs3.Proc) bool {
	for i := len(t.log) - 1; i >= 0; i-- {
		m := &t.log[i]
		if m.from != client || !m.ok || m.h.XID != o.h.XID {
			continue
		}
		var c rpc.Call
		_, err := rpc.ConsumeCall(m.body, &c)
		return err == nil && m.h.Proc == rpcrdma.RDMA_MSG && c.Prog == nfs3.Program && nfs3.Proc(c.Proc) == p
	}
	return false
}
