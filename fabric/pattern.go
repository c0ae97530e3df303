package fabric

import (
	"bytes"
	"context"
	"crypto/subtle"
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
// data[(shift+off) mod period], with room behind for the largest call. In poison, if there is any, every bit differs.
type pattern struct {
	room         int
	data, poison []byte
}

func newPattern(seed uint64, room int) *pattern {
	p := &pattern{room: room, data: make([]byte, patternPeriod+room)}
	c := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), 1})
	_, _ = c.Read(p.data[:patternPeriod])
	for at := patternPeriod; at < len(p.data); at += patternPeriod {
		copy(p.data[at:], p.data[:patternPeriod])
	}
	return p
}

// withPoison is p with the data to verify by.
func (p *pattern) withPoison() *pattern {
	q := &pattern{room: p.room, data: p.data, poison: make([]byte, len(p.data))}
	ones := bytes.Repeat([]byte{0xff}, 4096)
	for at := 0; at < len(p.data); at += len(ones) {
		subtle.XORBytes(q.poison[at:], p.data[at:], ones)
	}
	return q
}

// pattern is the fabric's, with room for calls of n bytes.
func (f *Fabric) pattern(n int, verify bool) *pattern {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pat == nil || f.pat.room < n {
		f.pat = newPattern(f.params.Seed, max(n, fillSize))
	}
	if verify && f.pat.poison == nil {
		f.pat = f.pat.withPoison()
	}
	return f.pat
}

// fillSize is how much is written at a time when a file is filled, bytes.
const fillSize = 256 << 10

// loadFile is a file of a load.
type loadFile struct {
	name  string
	fh    nfsclient.FH
	id    vfs.ID
	shift uint64
	p     *pattern
	state *fileState
}

// content is the n bytes at off, n at most the pattern's room. They must not be changed.
func (f *loadFile) content(off uint64, n int) []byte { return f.piece(f.p.data, off, n) }

// poison is what is put where content is expected to come.
func (f *loadFile) poison(off uint64, n int) []byte { return f.piece(f.p.poison, off, n) }

func (f *loadFile) piece(b []byte, off uint64, n int) []byte {
	at := (f.shift + off) % patternPeriod
	return b[at : at+uint64(n) : at+uint64(n)]
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
		file := loadFile{name: fmt.Sprintf("%s%d", l.Name, i), p: f.pattern(l.Size, l.Verify), shift: uint64(i) * 7919}
		var a vfs.Attr
		var w vfs.WCC
		mode := vfs.SetAttr{SetMode: true, Mode: 0o666}
		if err := f.raw.Create(ctx, dir, file.name, vfs.Unchecked, 0, &mode, &a, &w); err != nil {
			return fmt.Errorf("create %s: %w", file.name, err)
		}
		file.id = a.ID
		file.state = f.fileState(a.ID)
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
	if file.state.filled.Load() >= size && a.Size >= uint64(size) {
		return nil
	}
	var w vfs.WCC
	for off := int64(0); off < size; off += fillSize {
		n := min(fillSize, size-off)
		if err := f.raw.Write(ctx, file.id, uint64(off), file.content(uint64(off), int(n)), true, &w); err != nil {
			return err
		}
	}
	file.state.filled.Store(size)
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
