package chunkfuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// Rig is the server of this module on the embedded device, in virtual time, with a session to it. One goroutine uses it.
type Rig struct {
	*Session
	s    *sched.Sched
	net  *softroce.Network
	dev  [2]*softroce.Device // server, requester
	srv  *nfsserver.Server
	fs   *memfs.FS
	file []byte
	dead bool // a violation may have left anything
}

// RigConfig is what NewRig needs. Zero fields are the defaults.
type RigConfig struct {
	Seed   uint64
	Inline int              // of the requester; 0 is 4096
	Server nfsserver.Config // Device, Addr, Sched and Exports are set; MaxPayload 0 is 64 KiB, Credits 0 is 4, Threads 0 is 2
	Device softroce.Personality
}

// NewRig starts a server and a session.
func NewRig(cfg RigConfig) (r *Rig, err error) {
	r = &Rig{s: sched.NewVirtual(cfg.Seed)}
	defer func() {
		if err != nil {
			r.dead = true
			err = errors.Join(err, r.Close())
		}
	}()
	if cfg.Device.Name == "" {
		cfg.Device = softroce.RoCE
	}
	r.net = softroce.NewNetwork(r.s, softroce.NetConfig{})
	for i, name := range [...]string{"server", "requester"} {
		if r.dev[i], err = r.net.NewDevice(name, cfg.Device); err != nil {
			return r, err
		}
	}
	r.fs = memfs.New(memfs.Options{RootMode: 0o777, Capacity: 64 << 20})
	c := cfg.Server
	c.Device, c.Sched, c.Addr = r.dev[0], r.s, ""
	c.Exports = []nfsserver.Export{{FS: r.fs}}
	for _, d := range []struct {
		v   *int
		def int
	}{{&c.MaxPayload, 64 << 10}, {&c.Credits, 4}, {&c.Threads, 2}, {&c.DRCEntries, 64}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if r.srv, err = nfsserver.New(c); err != nil {
		return r, err
	}
	ctx := context.Background()
	q, err := Dial(ctx, Config{Device: r.dev[1], Sched: r.s, Addr: r.srv.Addr(), Inline: cfg.Inline, Recvs: 8})
	if err != nil {
		return r, err
	}
	if r.Session, err = NewSession(ctx, q, "/", nil); err != nil {
		return r, errors.Join(err, q.Close())
	}
	r.strict = true
	return r, nil
}

// Try is Session.Try, which besides wants nothing held by the server when it is done.
func (r *Rig) Try(in []byte) (*Result, error) { return r.TryContext(context.Background(), in) }

// TryContext is Try for Campaign.
func (r *Rig) TryContext(ctx context.Context, in []byte) (*Result, error) {
	res, err := r.Session.Try(ctx, in)
	return r.checked(res, err)
}

// Exchange is Session.Exchange with the same.
func (r *Rig) Exchange(msg []byte) (*Result, error) {
	return r.checked(r.Session.Exchange(context.Background(), msg))
}

func (r *Rig) checked(res *Result, err error) (*Result, error) {
	if err != nil || res.Got.Kind == Violation {
		r.dead = true
		return res, err
	}
	if n := r.fs.Pinned(); n > 0 {
		res.Got = violation("%d pages are still lent, after %v", n, res.Got)
	}
	if n := r.srv.Outstanding(); n > 0 {
		res.Got = violation("%d calls are still there, after %v", n, res.Got)
	}
	if w := &res.Want; w.apply || r.Now%64 == 0 {
		if at, err := r.scratchDiffers(); err != nil || at >= 0 {
			res.Got = violation("byte %d of the scratch file is not what was written: %v, after %v", at, err, res.Got)
		}
	}
	return res, nil
}

// Fingerprint is a hash over all that has happened in virtual time.
func (r *Rig) Fingerprint() uint64 { return r.s.Fingerprint() }

// Close takes all down and says what is left over.
func (r *Rig) Close() error {
	var errs []error
	if r.Session != nil {
		errs = append(errs, r.Session.Close())
	}
	if r.srv != nil {
		errs = append(errs, r.srv.Close())
	}
	if r.fs != nil && r.fs.Pinned() > 0 {
		errs = append(errs, fmt.Errorf("%d pages are still lent", r.fs.Pinned()))
	}
	if r.fs != nil {
		errs = append(errs, r.fs.CheckConsistent())
	}
	for _, d := range r.dev {
		if d == nil {
			continue
		}
		if left := d.Resources(); left != (verbs.Resources{}) {
			errs = append(errs, fmt.Errorf("left on device %s: %+v", d.Name(), left))
		}
		errs = append(errs, d.Close())
	}
	errs = append(errs, r.net.Close(), r.s.Close())
	if r.dead {
		return nil
	}
	return errors.Join(errs...)
}

// scratchDiffers finds where the scratch file is not what the acknowledged WRITEs have made of it, -1 if nowhere.
func (r *Rig) scratchDiffers() (at int, err error) {
	want := r.Srv.scratch
	n, err := r.readScratch()
	if err != nil {
		return 0, err
	}
	if bytes.Equal(r.file[:n], want) {
		return -1, nil
	}
	for i := range min(n, len(want)) {
		if r.file[i] != want[i] {
			return i, nil
		}
	}
	return min(n, len(want)), nil
}

func (r *Rig) readScratch() (n int, err error) {
	ctx := context.Background()
	var a vfs.Attr
	if err := r.fs.Lookup(ctx, r.fs.Root(), scratchName, &a); err != nil {
		return 0, err
	}
	if r.file == nil {
		r.file = make([]byte, scratchMost)
	}
	n, _, err = r.fs.Read(ctx, a.ID, 0, r.file, &a)
	return n, err
}
