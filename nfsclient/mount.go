package nfsclient

import (
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/clnt"
	"example.org/nfsrdma/internal/xprt/xprtrdma"
	"example.org/nfsrdma/internal/xprt/xprttcp"
	"example.org/nfsrdma/verbs"
)

// Mount is a mounted export. Close frees what it holds.
type Mount struct {
	cfg   Config
	s     *sched.Sched
	own   bool // s is the mount's
	x     clnt.Xprt
	rdma  *xprtrdma.Xprt // x is one of these
	tcp   *xprttcp.Xprt
	heads callHeads
	ops   *clnt.OpTables
	since sched.Time // its beginning

	jukebox jukebox

	root   FH
	fsinfo FsinfoRes
	rsize  int
	wsize  int
	dtsize uint32 // bytes of a READDIR result
	limits [2]string
}

// New connects to the server, mounts the export (MOUNT runs over the same connection, unless Config.MountAddr is set),
// and asks FSINFO for sizes.
func New(ctx context.Context, cfg Config) (*Mount, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	m := &Mount{cfg: cfg, s: cfg.Sched, heads: newCallHeads(&cfg.Cred), ops: clnt.NewOpTables(nfs3.NumProcs)}
	if m.s == nil {
		m.s, m.own = sched.NewLive(0), true
		m.cfg.Sched = m.s
	}
	m.since = m.s.Now()
	err := m.start(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s:%s: %w", cfg.Addr, cfg.Export, err), m.Close())
	}
	return m, nil
}

func (m *Mount) start(ctx context.Context) (err error) {
	if m.cfg.Proto == TCP {
		if m.tcp, err = xprttcp.New(m.cfg.tcp()); err != nil {
			return err
		}
		m.x = m.tcp
	} else {
		if m.rdma, err = xprtrdma.New(m.cfg.xprt()); err != nil {
			return err
		}
		m.x = rdmaXprt{m.rdma}
		m.cfg.RegMode = m.rdma.Mode()
	}
	if err = m.x.Connect(ctx); err != nil {
		return err
	}
	if err = m.withMountd(ctx, m.mnt); err != nil {
		return err
	}
	if m.fsinfo, err = m.FSInfo(ctx, m.root); err != nil {
		return err
	}
	m.setSizes()
	return nil
}

// setSizes derives rsize, wsize and the size of directory reads from what was asked for, what
// the server takes, and what a call can carry.
func (m *Mount) setSizes() {
	const fh = 4 + nfs3.MaxFHLen
	head := len(m.heads.nfs)
	rmax, rknob := m.x.MaxSink(head+fh+12, maxReply(nfs3.READ, 0))
	wmax, wknob := m.x.MaxData(head + fh + 20)
	m.rsize, m.limits[0] = lesser(m.cfg.RSize, "RSize", rmax, rknob, m.fsinfo.RtMax, "the server's rtmax")
	m.wsize, m.limits[1] = lesser(m.cfg.WSize, "WSize", wmax, wknob, m.fsinfo.WtMax, "the server's wtmax")
	dmax, _ := m.x.MaxSink(head+fh+24, maxReply(nfs3.READDIRPLUS, 0))
	m.dtsize = max(min(m.fsinfo.DtPref, 1<<20, uint32(dmax)), 512)
}

// lesser takes the smallest of three sizes, in whole pages if there is one.
func lesser(asked int, knob string, fits int, fitsKnob string, server uint32, serverKnob string) (int, string) {
	n := asked
	if fits < n {
		n, knob = fits, fitsKnob
	}
	if server > 0 && int(server) < n {
		n, knob = int(server), serverKnob
	}
	if n > verbs.PageSize {
		n &^= verbs.PageSize - 1
	}
	return max(n, 1), knob
}

// withMountd lets f call the MOUNT program: over the mount's connection, or over one of its own.
func (m *Mount) withMountd(ctx context.Context, f func(context.Context, clnt.Xprt) error) error {
	if m.cfg.MountAddr == "" {
		return f(ctx, m.x)
	}
	c := m.cfg.tcp()
	c.Addr, c.Slots, c.Soft = m.cfg.MountAddr, 1, true
	x, err := xprttcp.New(c)
	if err != nil {
		return err
	}
	if err = x.Connect(ctx); err == nil {
		err = f(ctx, x)
	}
	return errors.Join(err, x.Close())
}

// mnt asks for the root.
func (m *Mount) mnt(ctx context.Context, x clnt.Xprt) error {
	q, err := getCall(ctx, x, m.heads.mount, uint32(mount3.MNT))
	if err != nil {
		return err
	}
	defer x.Put(q)
	q.Msg = mount3.AppendPathArgs(q.Msg, &mount3.PathArgs{Path: []byte(m.cfg.Export)})
	q.MaxReply = rpc.MaxReplyLen + 4 + 4 + nfs3.MaxFHLen + 4 + 4*mount3.MaxFlavors
	body, err := m.do(ctx, q)
	if err != nil {
		return failed("MNT", err)
	}
	var res mount3.MntRes
	if _, err := mount3.ConsumeMntRes(body, &res); err != nil {
		return fmt.Errorf("MNT: %w: %w", ErrBadReply, err)
	}
	if res.Status != mount3.MNT3_OK {
		// mountstat3 has the numbers of nfsstat3 for what both have.
		return &Error{Op: "MNT", Name: m.cfg.Export, Status: Status(res.Status)}
	}
	m.root = res.FH
	return nil
}

// umnt tells the server that the mount ends.
func (m *Mount) umnt(ctx context.Context, x clnt.Xprt) error {
	q, err := getCall(ctx, x, m.heads.mount, uint32(mount3.UMNT))
	if err != nil {
		return err
	}
	defer x.Put(q)
	q.Msg = mount3.AppendPathArgs(q.Msg, &mount3.PathArgs{Path: []byte(m.cfg.Export)})
	q.MaxReply = rpc.MaxReplyLen
	_, err = m.do(ctx, q)
	return err
}

// Root is the handle of the export's root.
func (m *Mount) Root() FH { return m.root }

// RSize is the most bytes of one READ of the file methods.
func (m *Mount) RSize() int { return m.rsize }

// WSize is likewise for WRITE.
func (m *Mount) WSize() int { return m.wsize }

// Negotiated is what client and server agreed on.
type Negotiated struct {
	Proto                  Proto
	InlineSend, InlineRecv int // thresholds in force, bytes
	Credits                int // granted by the latest reply; over TCP the slots
	RemoteInvalidation     bool
	PrivateData            bool // the server sent RFC 8797 private data
	RegMode                RegMode
	IRD, ORD               int
	SQDepth                int
	RSize, WSize           int    // bytes
	RSizeLimit, WSizeLimit string // what keeps them from being larger
	LocalAddr              string
}

// Negotiated tells of the present connection.
func (m *Mount) Negotiated() Negotiated {
	if m.tcp != nil {
		return Negotiated{Proto: TCP, Credits: m.cfg.Credits, RSize: m.rsize, WSize: m.wsize,
			RSizeLimit: m.limits[0], WSizeLimit: m.limits[1], LocalAddr: m.tcp.LocalAddr()}
	}
	c := m.rdma.Conn()
	return Negotiated{InlineSend: c.InlineSend, InlineRecv: c.InlineRecv, Credits: c.Credits,
		RemoteInvalidation: c.RemoteInvalidation, PrivateData: c.PrivateData, RegMode: m.cfg.RegMode, IRD: c.IRD, ORD: c.ORD, SQDepth: c.SQDepth,
		RSize: m.rsize, WSize: m.wsize, RSizeLimit: m.limits[0], WSizeLimit: m.limits[1], LocalAddr: c.LocalAddr}
}

// Counters are the mount's figures under the kernel's names (mountstats "xprt: rdma" or "tcp"), bytes
// besides. They can be read after Close.
func (m *Mount) Counters() []verbs.Counter { return m.x.Counters() }

// Disconnect ends the present connection, as a network would. Calls in flight are sent again
// over the next one.
func (m *Mount) Disconnect() { m.x.Disconnect() }

// Unmount tells the server (UMNT) and closes.
func (m *Mount) Unmount(ctx context.Context) error {
	err := m.withMountd(ctx, m.umnt)
	return errors.Join(failed("UMNT", err), m.Close())
}

// Close ends every call with ErrClosed, waits for the callers, and frees everything. Again, it does nothing.
func (m *Mount) Close() error {
	var err error
	m.jukebox.close()
	if m.x != nil {
		err = m.x.Close()
	}
	if m.own {
		m.own = false
		err = errors.Join(err, m.s.Close())
	}
	return err
}
