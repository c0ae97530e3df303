package fabric

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"example.org/nfsrdma/nfsclient"
)

// Mount is a mount of a test: its methods end the test on an error. NFS gives
// the client's own, with every procedure, contexts and errors.
type Mount struct {
	f   *Fabric
	nfs *nfsclient.Mount
	ctx context.Context
}

// Mount mounts an export; it is unmounted when the fabric closes. Change is as for Dial.
func (f *Fabric) Mount(t TB, export string, change ...func(*nfsclient.Config)) *Mount {
	t.Helper()
	m, err := f.Dial(f.ctx, export, change...)
	f.check(t, err)
	return m
}

// Dial is Mount with an error. Each mount has a connection of its own. Change,
// if any, alters the client's configuration that the Params give.
func (f *Fabric) Dial(ctx context.Context, export string, change ...func(*nfsclient.Config)) (*Mount, error) {
	p := &f.params
	c := nfsclient.Config{
		Proto: p.Proto, Device: f.dev.client, Addr: f.dev.addr, Export: export, Sched: f.s,
		RegMode: p.RegMode, RegCost: nfsclient.RegCost{Op: p.RegTime, Page: p.RegPageTime, Invalidate: p.InvTime},
		CPUCost:     nfsclient.CPUCost{SoftIRQ: p.SoftIRQTime, Wake: p.WakeTime, Held: p.WakeHeldTime, BHLocks: p.BHLocks, HighPri: p.HighPri},
		MaxDataSegs: p.MaxDataSegs, RSize: p.RSize, WSize: p.WSize,
		InlineSend: p.InlineWrite, InlineRecv: p.InlineRead, Credits: p.Credits, IRD: p.IRD, SQDepth: p.ClientSQDepth,
		NoRemoteInvalidation: p.NoRemoteInv, NoPadOptimize: p.NoPadOptimize,
		Cred: nfsclient.Cred{UID: p.UID, GID: p.GID},
	}
	if p.Trace {
		c.Trace = func(line string) { f.trace("client", line) }
	}
	if p.Client != nil {
		p.Client(&c)
	}
	for _, g := range change {
		g(&c)
	}
	if c.Proto == TCP && c.Addr == f.dev.addr {
		if err := f.overTCP(&c); err != nil {
			return nil, err
		}
	}
	ctx, cancel := f.s.WithCancel(ctx)
	defer cancel()
	end, err := f.beginDial(cancel)
	if err != nil {
		return nil, err
	}
	defer end()
	n, err := nfsclient.New(ctx, c)
	if err != nil {
		return nil, err
	}
	m := &Mount{f: f, nfs: n, ctx: f.ctx}
	f.mu.Lock()
	closed := f.closed
	if !closed {
		f.mounts = append(f.mounts, m)
	}
	f.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, n.Close())
	}
	return m, nil
}

// beginDial lets Close end a mount that is being made, and wait for that.
func (f *Fabric) beginDial(cancel context.CancelFunc) (end func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	d := &dial{cancel}
	f.dialing = append(f.dialing, d)
	f.dials.Add(1)
	return func() {
		f.mu.Lock()
		f.dialing = slices.DeleteFunc(f.dialing, func(x *dial) bool { return x == d })
		f.mu.Unlock()
		f.dials.Done()
	}, nil
}

// dial is a mount that is being made.
type dial struct{ cancel context.CancelFunc }

func (f *Fabric) defaultMount(ctx context.Context) (*Mount, error) {
	var m *Mount
	f.mu.Lock()
	if len(f.mounts) > 0 {
		m = f.mounts[0]
	}
	f.mu.Unlock()
	if m != nil {
		return m, nil
	}
	return f.Dial(ctx, "/")
}

// NFS is the client's mount.
func (m *Mount) NFS() *nfsclient.Mount { return m.nfs }

// Unmount ends the mount before the fabric closes. Its calls in flight end with nfsclient.ErrClosed. Again,
// it does nothing.
func (m *Mount) Unmount(t TB) {
	t.Helper()
	f := m.f
	err := m.nfs.Close()
	f.mu.Lock()
	if i := slices.Index(f.mounts, m); i >= 0 {
		f.past = f.past.add(Counters(m.nfs.Counters()))
		f.mounts = slices.Delete(f.mounts, i, i+1)
	}
	f.mu.Unlock()
	f.check(t, err)
}

// WriteFile makes or truncates a file, writes data, and commits it.
func (m *Mount) WriteFile(t TB, name string, data []byte) {
	t.Helper()
	m.f.check(t, m.nfs.WriteFile(m.ctx, name, data, 0o644))
}

// ReadFile is the whole content of a file.
func (m *Mount) ReadFile(t TB, name string) []byte {
	t.Helper()
	b, err := m.nfs.ReadFile(m.ctx, name)
	m.f.check(t, err)
	return b
}

// Mkdir makes a directory and its parents.
func (m *Mount) Mkdir(t TB, name string) {
	t.Helper()
	m.f.check(t, m.nfs.MkdirAll(m.ctx, name, 0o755))
}

// Remove removes a file, or a directory with all that is in it.
func (m *Mount) Remove(t TB, name string) {
	t.Helper()
	m.f.check(t, m.nfs.RemoveAll(m.ctx, name))
}

// CopyIn copies a tree into dir.
func (m *Mount) CopyIn(t TB, src fs.FS, dir string) {
	t.Helper()
	m.f.check(t, m.nfs.CopyIn(m.ctx, src, dir))
}

// Negotiated is what client and server agreed on.
func (m *Mount) Negotiated() nfsclient.Negotiated { return m.nfs.Negotiated() }
