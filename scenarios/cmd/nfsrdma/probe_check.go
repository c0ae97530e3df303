package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"example.org/nfsrdma/nfsclient"
)

// prober runs the checks on a mount.
type prober struct {
	ctx  context.Context
	m    *nfsclient.Mount
	r    *probeReport
	size int // of the file that is written
}

// roundTrips is how many calls of a kind are timed.
const roundTrips = 100

// run fills the report. The first error ends it.
func (p *prober) run(write bool) error {
	p.r.negotiated(p.m.Negotiated())
	defer p.after()
	if err := p.describe(); err != nil {
		return err
	}
	p.r.RoundTrip = map[string]probeTime{}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"NULL", func() error { return p.m.Null(p.ctx) }},
		{"GETATTR", func() error { _, err := p.m.GetAttr(p.ctx, p.m.Root()); return err }},
	} {
		t, err := timeCalls(c.call)
		if err != nil {
			return err
		}
		p.r.RoundTrip[c.name] = t
	}
	if write {
		return p.written()
	}
	return p.existing()
}

// after notes what is known best at the end: the credits, which grow with replies, and the counters.
func (p *prober) after() {
	p.r.negotiated(p.m.Negotiated())
	p.r.Counters = map[string]uint64{}
	for _, c := range p.m.Counters() {
		if c.Value > 0 {
			p.r.Counters[c.Name] = c.Value
		}
	}
}

// describe asks what the server says of itself.
func (p *prober) describe() error {
	i, err := p.m.FSInfo(p.ctx, p.m.Root())
	if err != nil {
		return err
	}
	p.r.FSInfo = probeFSInfo{i.RtMax, i.RtPref, i.WtMax, i.WtPref, i.DtPref, i.MaxFileSize, i.Properties}
	c, err := p.m.PathConf(p.ctx, p.m.Root())
	if err != nil {
		return err
	}
	p.r.PathConf = probePathConf{c.LinkMax, c.NameMax, c.NoTrunc, c.ChownRestricted, c.CaseInsensitive, c.CasePreserving}
	s, err := p.m.FSStat(p.ctx, p.m.Root())
	if err != nil {
		return err
	}
	p.r.FSStat = probeFSStat{s.TotalBytes, s.FreeBytes, s.TotalFiles}
	return nil
}

func timeCalls(call func() error) (t probeTime, err error) {
	us := make([]float64, roundTrips)
	for i := range us {
		start := time.Now()
		if err := call(); err != nil {
			return t, err
		}
		us[i] = float64(time.Since(start).Nanoseconds()) / 1e3
	}
	slices.Sort(us)
	return probeTime{len(us), us[0], us[len(us)/2], us[len(us)-1]}, nil
}

// written writes a file of random bytes, compares, and removes it.
func (p *prober) written() (err error) {
	var id [8]byte
	_, _ = rand.Read(id[:])
	name := ".nfsrdma-probe-" + hex.EncodeToString(id[:])
	mode := nfsclient.Sattr{SetMode: true, Mode: 0o600}
	created, err := p.m.Create(p.ctx, p.m.Root(), name, nfsclient.CreateHow{Mode: nfsclient.GUARDED, Attr: mode})
	if err != nil {
		return p.r.check("create", 0, 0, 0, err)
	}
	defer func() {
		_, e := p.m.Remove(context.WithoutCancel(p.ctx), p.m.Root(), name)
		if e != nil {
			err = errors.Join(err, p.r.check("remove", 0, 0, 0, e))
		}
	}()
	fh := created.FH
	if !created.HasFH {
		l, err := p.m.Lookup(p.ctx, p.m.Root(), name)
		if err != nil {
			return err
		}
		fh = l.FH
	}
	want := make([]byte, p.size)
	_, _ = rand.Read(want)
	if err := p.writeAll(fh, want, p.m.WSize()); err != nil {
		return err
	}
	if err := p.readSizes(fh, want); err != nil {
		return err
	}
	// Again, over a part, in sizes that no page has.
	part := want[len(want)/3 : min(len(want)/3+1<<20, len(want))]
	_, _ = rand.Read(part)
	if err := p.overwrite(fh, part, len(want)/3); err != nil {
		return err
	}
	return p.readSizes(fh, want)
}

// writeAll writes the file in calls of size, unstable, and commits.
func (p *prober) writeAll(fh nfsclient.FH, want []byte, size int) error {
	start := time.Now()
	verf, err := p.write(fh, want, 0, size, nfsclient.UNSTABLE)
	if err == nil {
		var v nfsclient.Verf
		if v, err = p.m.Commit(p.ctx, fh, 0, 0); err == nil && v != verf {
			err = errors.New("the write verifier changed: the server has restarted")
		}
	}
	return p.r.check("write", size, int64(len(want)), time.Since(start), err)
}

// overwriteSize is neither even nor a multiple of a page.
const overwriteSize = 10_007

func (p *prober) overwrite(fh nfsclient.FH, part []byte, at int) error {
	start := time.Now()
	size := min(overwriteSize, p.m.WSize())
	_, err := p.write(fh, part, at, size, nfsclient.FILE_SYNC)
	return p.r.check("overwrite", size, int64(len(part)), time.Since(start), err)
}

func (p *prober) write(fh nfsclient.FH, data []byte, at, size int, how nfsclient.StableHow) (verf nfsclient.Verf, err error) {
	for done := 0; done < len(data); {
		res, err := p.m.Write(p.ctx, fh, uint64(at+done), data[done:min(done+size, len(data))], how)
		if err != nil {
			return verf, err
		}
		if done > 0 && how == nfsclient.UNSTABLE && res.Verf != verf {
			return verf, errors.New("the write verifier changed: the server has restarted")
		}
		verf = res.Verf
		done += res.Count
	}
	return verf, nil
}

// smallReads bounds what is read in small calls, bytes.
const smallReads = 1 << 20

// readSizes reads the file in calls of several sizes, and compares.
func (p *prober) readSizes(fh nfsclient.FH, want []byte) error {
	sizes := []int{p.m.RSize(), 64 << 10, 4096, 4095, 1000}
	for i, size := range sizes {
		if size > p.m.RSize() || slices.Contains(sizes[:i], size) {
			continue
		}
		n := len(want)
		if size < 64<<10 {
			n = min(n, smallReads)
		}
		start := time.Now()
		err := p.compare(fh, want, n, size)
		if err := p.r.check("read", size, int64(n), time.Since(start), err); err != nil {
			return err
		}
	}
	return nil
}

// compare reads the first n bytes in calls of size.
func (p *prober) compare(fh nfsclient.FH, want []byte, n, size int) error {
	buf := make([]byte, size)
	for at := 0; at < n; {
		b := buf[:min(size, n-at)]
		got, eof, err := p.m.Read(p.ctx, fh, uint64(at), b)
		if err != nil {
			return err
		}
		if got == 0 || eof && at+got < len(want) {
			return fmt.Errorf("the file ends at %d, not at %d", at+got, len(want))
		}
		if w := want[at : at+got]; !bytes.Equal(b[:got], w) {
			return fmt.Errorf("data differs at offset %d", at+firstDifference(b, w))
		}
		at += got
	}
	return nil
}

func firstDifference(a, b []byte) int {
	for i := range b {
		if a[i] != b[i] {
			return i
		}
	}
	return len(b)
}

// existing reads what the export has: the names of its root, and its first files, twice.
func (p *prober) existing() error {
	const maxFiles = 4
	start := time.Now()
	list, err := p.m.FS(p.ctx).ReadDir(".")
	if err := p.r.check(fmt.Sprintf("%d names", len(list)), 0, 0, time.Since(start), err); err != nil {
		return err
	}
	files := 0
	for _, d := range list {
		if !d.Type().IsRegular() || files == maxFiles {
			continue
		}
		files++
		if err := p.readTwice(d.Name()); err != nil {
			return err
		}
	}
	return nil
}

// readTwice reads the beginning of a file in large calls, and compares it with small ones. A file that is not
// readable counts as none.
func (p *prober) readTwice(name string) error {
	l, err := p.m.Lookup(p.ctx, p.m.Root(), name)
	if err != nil {
		return err
	}
	start := time.Now()
	buf := make([]byte, min(p.m.RSize(), smallReads))
	n, _, err := p.m.Read(p.ctx, l.FH, 0, buf)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err == nil && n > 0 {
		err = p.compare(l.FH, buf[:n], n, 4096)
	}
	return p.r.check("read "+name, 0, int64(n), time.Since(start), err)
}
