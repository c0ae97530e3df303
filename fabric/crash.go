package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/model"
	"example.org/nfsrdma/verbs"
)

// newServer starts an instance of the server.
func (f *Fabric) newServer() (*nfsserver.Server, error) {
	p := &f.params
	f.mu.Lock()
	boot := f.boots
	f.boots++
	f.mu.Unlock()
	c := nfsserver.Config{
		Device: f.dev.server, Addr: f.dev.addr, Sched: f.s,
		Exports:    []nfsserver.Export{{Path: "/", FS: f.fs, RootSquash: p.RootSquash, ReadOnly: p.ReadOnly}},
		Threads:    p.Threads,
		InlineSend: p.ServerInline, InlineRecv: p.ServerInline, Credits: p.ServerCredits,
		ORD: p.ORD, SQDepth: p.SQDepth, MaxPayload: p.MaxBlockSize,
		NoRemoteInvalidation: p.NoRemoteInv, RegisterSink: p.RegisterSink, DRCEntries: p.DRCEntries,
		Boot: boot, Trace: f.traceServer(),
	}
	f.mu.Lock()
	f.tcp.serve(&c, p)
	f.mu.Unlock()
	srv, err := nfsserver.New(c)
	if err == nil {
		f.listens(srv)
	}
	return srv, err
}

// CrashServer ends the server as a crash does: connections break, calls in work are not answered, and the file
// system loses what is not durable. After down a new one listens, with an empty duplicate request cache and a new
// write verifier; mounts connect again and repeat what was not answered. The storage must be able to lose data:
// Storage.Crashable, or a FileSystem with the method Crash.
func (f *Fabric) CrashServer(ctx context.Context, down time.Duration) error {
	c, ok := f.fs.(model.Crasher)
	if !ok || f.mem != nil && !f.params.Storage.crashable {
		return fmt.Errorf("fabric: storage %s keeps unstable data over a crash: make it Crashable", f.params.Storage)
	}
	return f.replaceServer(ctx, func(ctx context.Context) error {
		c.Crash()
		return f.s.Sleep(ctx, sched.FromStd(down))
	})
}

// restartServer ends the server, and starts one that remembers no call. The file system keeps all that it has.
func (f *Fabric) restartServer(ctx context.Context) error {
	return f.replaceServer(ctx, func(context.Context) error { return nil })
}

// replaceServer ends the server, and starts another after what comes in between.
func (f *Fabric) replaceServer(ctx context.Context, between func(context.Context) error) error {
	ctx, cancel := f.s.WithCancel(ctx)
	defer cancel()
	end, err := f.beginDial(cancel)
	if err != nil {
		return err
	}
	defer end()
	if err := f.crash.Lock(ctx); err != nil {
		return err
	}
	defer f.crash.Unlock()
	f.crashes.Add(1)
	old := f.NFSServer()
	if err := old.Close(); err != nil {
		return fmt.Errorf("fabric: end of the server: %w", err)
	}
	if err := between(ctx); err != nil {
		return err
	}
	f.crashes.Add(1)
	srv, err := f.newServer()
	for i := 0; i < maxRestarts && (faulty(err) || errors.Is(err, verbs.ErrClosed)); i++ {
		if err := f.s.Sleep(ctx, restartWait); err != nil {
			return err
		}
		srv, err = f.newServer()
	}
	if err != nil {
		return fmt.Errorf("fabric: restart of the server: %w", err)
	}
	f.mu.Lock()
	closed := f.closed
	if !closed {
		st := old.Stats()
		f.pastServer = f.pastServer.add(ended(Counters(st.Counters())))
		f.server = srv
	}
	f.mu.Unlock()
	if closed {
		return errors.Join(ErrClosed, srv.Close())
	}
	return nil
}

// A server that an injected fault, or a device that is away, has kept from its start is started again.
const (
	maxRestarts = 1000
	restartWait = sched.Millisecond
)

func faulty(err error) bool {
	var x *faults.Error
	return errors.As(err, &x)
}

// ended are the counters of a server that is gone, without those of the present.
func ended(c Counters) Counters {
	var out Counters
	for _, x := range c {
		if x.Name == "threads" || x.Name == "conn_open" {
			x.Value = 0
		}
		out = append(out, verbs.Counter{Name: x.Name, Value: x.Value})
	}
	return out
}

// StorageParts are the models of the exported storage, to ask what they did.
func (f *Fabric) StorageParts() StorageParts { return f.parts }

// Sched is the scheduler of the fabric, for load generators of this module.
func (f *Fabric) Sched() *sched.Sched { return f.s }
