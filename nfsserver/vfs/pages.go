package vfs

import (
	"context"
	"sync/atomic"
)

// A Slab is memory that a file system lends to the transport piece by piece.
// The transport registers a slab once and keeps the registration; slabs are
// large (1 MiB or more) and live as long as their file system.
type Slab struct {
	Mem []byte
	ID  uint32 // small and unique in the process, for table look-up
}

var slabIDs atomic.Uint32

// NewSlab allocates a slab of n bytes.
func NewSlab(n int) *Slab {
	return &Slab{Mem: huge(make([]byte, n)), ID: slabIDs.Add(1) - 1}
}

// Page is a piece of a slab: Slab.Mem[Off : Off+Len].
type Page struct {
	Slab *Slab
	Off  uint32
	Len  uint32
	Ref  any // the file system's own, to find the page at release; a pointer, so that it does not allocate
}

// Bytes is the memory of the page.
func (p *Page) Bytes() []byte { return p.Slab.Mem[p.Off : p.Off+p.Len : p.Off+p.Len] }

// Pages is a list of pages that make up a run of a file. Its storage is
// reused: Reset empties it and keeps the capacity.
type Pages struct {
	List []Page
}

// Reset empties the list.
func (p *Pages) Reset() {
	clear(p.List)
	p.List = p.List[:0]
}

// Len is the number of bytes in all pages.
func (p *Pages) Len() int {
	n := 0
	for i := range p.List {
		n += int(p.List[i].Len)
	}
	return n
}

// PageReader lends the memory that holds a file's data, so that a READ is sent
// from where the data lies.
type PageReader interface {
	// ReadPages appends up to n bytes at off to out. The pages do not change
	// and are not reused before ReleasePages: a write meanwhile goes elsewhere.
	ReadPages(ctx context.Context, id ID, off uint64, n int, out *Pages, a *Attr) (eof bool, err error)
	// ReleasePages gives pages back, those of ReadPages or unused ones of GrabPages,
	// and resets p.
	ReleasePages(p *Pages)
}

// PageWriter lends empty memory into which the data of a WRITE is received,
// and which then becomes the file's.
type PageWriter interface {
	PageReader
	// GrabPages appends exactly n bytes for a write at off to out. False: the
	// range does not suit (unaligned, short), use Write.
	GrabPages(id ID, off uint64, n int, out *Pages) bool
	// WritePages is Write with the data in pages of GrabPages of the same id,
	// offset and length. It takes the pages over, also when it fails, and resets p.
	WritePages(ctx context.Context, id ID, off uint64, p *Pages, stable bool, w *WCC) error
}

// Plain is fs without lent pages: all data goes through its Read and Write. A
// type that embeds a file system which lends pages, and changes Read or Write, is bypassed unless it
// is exported through Plain or changes the page methods too.
func Plain(fs FS) FS {
	if v, ok := fs.(Verifier); ok {
		return struct {
			FS
			Verifier
		}{fs, v}
	}
	return struct{ FS }{fs}
}
