package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"

	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/vfs"
)

// patternPeriod is a prime above 1 MiB, so that data which lands a block, page
// or chunk away from its place differs.
const patternPeriod = 1048583

// pattern is the data of all load files: a file's byte at off is
// data[(shift+off) mod period], with room behind for the largest call.
type pattern struct{ data []byte }

func newPattern(seed uint64) *pattern {
	p := &pattern{data: make([]byte, patternPeriod+(1<<20))}
	c := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), 1})
	_, _ = c.Read(p.data[:patternPeriod])
	copy(p.data[patternPeriod:], p.data)
	return p
}

// loadFile is a file of a load.
type loadFile struct {
	name  string
	fh    nfsclient.FH
	id    vfs.ID
	shift uint64
	p     *pattern
}

// content is the n bytes at off, n at most 1 MiB. They must not be changed.
func (f *loadFile) content(off uint64, n int) []byte {
	at := (f.shift + off) % patternPeriod
	return f.p.data[at : at+uint64(n) : at+uint64(n)]
}

func (f *loadFile) compare(off uint64, got []byte) error {
	want := f.content(off, len(got))
	if bytes.Equal(got, want) {
		return nil
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	return fmt.Errorf("data of %s differs at offset %d: got %#02x, want %#02x", f.name, off+uint64(i), got[i], want[i])
}

// prepare makes the files, and fills those that will be read.
func (r *run) prepare(ctx context.Context) error {
	l, f := &r.l, r.f
	if l.Op == Null {
		r.files = make([]loadFile, l.Files)
		return nil
	}
	dir, err := f.lookupDir(ctx, l.Dir)
	if err != nil {
		return err
	}
	for i := range l.Files {
		file := loadFile{name: fmt.Sprintf("%s%d", l.Name, i), p: f.pattern(), shift: uint64(i) * 7919}
		var a vfs.Attr
		var w vfs.WCC
		mode := vfs.SetAttr{SetMode: true, Mode: 0o666}
		if err := f.raw.Create(ctx, dir, file.name, vfs.Unchecked, 0, &mode, &a, &w); err != nil {
			return fmt.Errorf("create %s: %w", file.name, err)
		}
		file.id = a.ID
		if l.Op == Read || l.Op == Mix {
			if err := f.fill(ctx, &file, l.FileSize); err != nil {
				return fmt.Errorf("fill %s: %w", file.name, err)
			}
		}
		p := path.Join("/", l.Dir, file.name)
		if file.fh, _, err = r.m.LookupPath(ctx, p); err != nil {
			return fmt.Errorf("look up %s: %w", p, err)
		}
		r.files = append(r.files, file)
	}
	return nil
}

func (f *Fabric) fill(ctx context.Context, file *loadFile, size int64) error {
	var a vfs.Attr
	if err := f.raw.Attr(ctx, file.id, &a); err != nil {
		return err
	}
	if f.filled[file.id] >= size && a.Size >= uint64(size) {
		return nil
	}
	var w vfs.WCC
	for off := int64(0); off < size; off += 1 << 20 {
		n := min(1<<20, size-off)
		if err := f.raw.Write(ctx, file.id, uint64(off), file.content(uint64(off), int(n)), true, &w); err != nil {
			return err
		}
	}
	f.filled[file.id] = size
	return nil
}

// verifyStored compares n bytes at off with what the server's file system holds.
func (f *Fabric) verifyStored(ctx context.Context, file *loadFile, off uint64, n int) error {
	var a vfs.Attr
	pr, ok := f.raw.(vfs.PageReader)
	if !ok {
		buf := make([]byte, n)
		got, _, err := f.raw.Read(ctx, file.id, off, buf, &a)
		if err != nil {
			return err
		}
		if got != n {
			return fmt.Errorf("%s holds %d bytes at %d, want %d", file.name, got, off, n)
		}
		return file.compare(off, buf)
	}
	var p vfs.Pages
	if _, err := pr.ReadPages(ctx, file.id, off, n, &p, &a); err != nil {
		return err
	}
	defer pr.ReleasePages(&p)
	if p.Len() != n {
		return fmt.Errorf("%s holds %d bytes at %d, want %d", file.name, p.Len(), off, n)
	}
	for i := range p.List {
		b := p.List[i].Bytes()
		if err := file.compare(off, b); err != nil {
			return err
		}
		off += uint64(len(b))
	}
	return nil
}

func (f *Fabric) lookupDir(ctx context.Context, dir string) (vfs.ID, error) {
	id := f.raw.Root()
	for _, name := range bytes.Split([]byte(path.Clean("/"+dir)), []byte("/")) {
		if len(name) == 0 {
			continue
		}
		var a vfs.Attr
		if err := f.raw.Lookup(ctx, id, string(name), &a); err != nil {
			return id, fmt.Errorf("%s in %s: %w", name, dir, err)
		}
		if a.Type != vfs.Directory {
			return id, fmt.Errorf("%s in %s: %w", name, dir, errors.Join(vfs.ErrNotDir))
		}
		id = a.ID
	}
	return id, nil
}
