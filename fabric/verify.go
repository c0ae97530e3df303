package fabric

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"example.org/nfsrdma/nfsserver/vfs"
)

// fileState is what the fabric knows of a load file, over all loads.
type fileState struct {
	filled atomic.Int64 // bytes from the start that hold the pattern

	mu    sync.Mutex
	spans []span // of verified calls in flight
}

// span is a range that a verified call uses. Where sole is set it holds poison for a
// while, so that others must not look.
type span struct {
	off  uint64
	n    int
	sole bool
}

func (a span) overlaps(b span) bool { return a.off < b.off+uint64(b.n) && b.off < a.off+uint64(a.n) }

func (f *Fabric) fileState(id vfs.ID) *fileState {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.files[id]
	if s == nil {
		s = &fileState{}
		f.files[id] = s
	}
	return s
}

// enter begins the use of a span, unless it is in the way of another.
func (s *fileState) enter(x span) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, y := range s.spans {
		if (x.sole || y.sole) && x.overlaps(y) {
			return false
		}
	}
	s.spans = append(s.spans, x)
	return true
}

func (s *fileState) leave(x span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.spans, x)
	last := len(s.spans) - 1
	s.spans[i] = s.spans[last]
	s.spans = s.spans[:last]
}

// poisonStored makes what the server's file system holds differ from what a WRITE will bring, so
// that a WRITE that is lost shows although the file had the pattern before.
func (f *Fabric) poisonStored(ctx context.Context, file *loadFile, off uint64, n int) error {
	var a vfs.Attr
	if err := f.raw.Attr(ctx, file.id, &a); err != nil {
		return err
	}
	if a.Size <= off {
		return nil
	}
	var w vfs.WCC
	n = int(min(uint64(n), a.Size-off))
	return f.raw.Write(ctx, file.id, off, file.poison(off, n), true, &w)
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
