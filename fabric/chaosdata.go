package fabric

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"example.org/nfsrdma/nfsclient"
)

// chaosData is a file of cells.
type chaosData struct {
	t       *chaosTask
	f       *chaosFile
	fh      nfsclient.FH
	file    *nfsclient.File // nil: by procedures
	pending []pendingWrite  // unstable
}

// pendingWrite is an acknowledged unstable WRITE.
type pendingWrite struct {
	v        uint32
	from, to int
	verf     nfsclient.Verf
	gen      uint32 // in which it began
}

func (t *chaosTask) newData(name string) *chaosData {
	n := t.m.Negotiated()
	cell := min([]int{500, 1000, 4096, 5000, 16384, 40000}[t.r.IntN(6)], n.WSize, n.RSize)
	return &chaosData{t: t, f: newChaosFile(t.number(), name, cell, 8+t.r.IntN(24), t.c.plan.crash)}
}

// span draws cells of one call of n bytes at most.
func (d *chaosData) span(most int) (from, to int) {
	r, f := d.t.r, d.f
	from = r.IntN(len(f.cells))
	return from, min(from+1+r.IntN(max(most/f.cell, 1)), len(f.cells))
}

// begin is the beginning of a call.
func (d *chaosData) begin() uint32 {
	gen := d.t.gen()
	d.f.begin(gen)
	return gen
}

// unstable is the outcome of a write that nothing has made stable.
func (d *chaosData) unstable(gen uint32) outcome {
	if d.t.calm(gen) {
		return fresh
	}
	return volatil
}

func (d *chaosData) write(ctx context.Context, how nfsclient.StableHow) {
	t, f := d.t, d.f
	most := t.m.WSize()
	if d.file != nil {
		most *= 3
	}
	from, to := d.span(most)
	gen := d.begin()
	v := f.next()
	b := f.data(v, from, to)
	off := from * f.cell
	f.size = max(f.size, to*f.cell)
	// Until the answer, it may be there.
	f.note(v, from, to, maybe)
	if d.file != nil { // which must know of all writes: what a crash has lost it writes again
		n, err := d.file.WriteAt(b, int64(off))
		settled := t.judge("write", gen, err)
		mid := from + n/f.cell
		f.note(v, from, mid, d.unstable(gen))
		d.pending = append(d.pending, pendingWrite{v: v, from: from, to: mid})
		if err != nil {
			f.note(v, mid, to, unknown(settled))
		}
		if how != nfsclient.UNSTABLE {
			d.sync(ctx)
		}
		return
	}
	res, err := t.m.Write(ctx, d.fh, uint64(off), b, how)
	settled := t.judge("WRITE", gen, err)
	if err != nil {
		f.note(v, from, to, unknown(settled))
		return
	}
	to = from + res.Count/f.cell
	if res.Committed < how {
		t.violated("WRITE asked for %v and was committed %v", how, res.Committed)
	}
	if res.Committed != nfsclient.UNSTABLE {
		f.note(v, from, to, done)
		return
	}
	f.note(v, from, to, d.unstable(gen))
	d.pending = append(d.pending, pendingWrite{v, from, to, res.Verf, gen})
}

// sync makes what is pending stable, and writes again what is lost.
func (d *chaosData) sync(ctx context.Context) {
	t, f := d.t, d.f
	gen := d.begin()
	if d.file != nil {
		err := d.file.Sync()
		if settled := t.judge("sync", gen, err); err != nil {
			// What it writes again may come late, too.
			for _, w := range d.pending {
				f.note(w.v, w.from, w.to, unknown(settled))
			}
			return
		}
		for _, w := range d.pending {
			f.note(w.v, w.from, w.to, done)
		}
		d.pending = d.pending[:0]
		return
	}
	verf, err := t.m.Commit(ctx, d.fh, 0, 0)
	if t.judge("COMMIT", gen, err); err != nil {
		return
	}
	list := d.pending
	d.pending = nil
	for _, w := range list {
		if w.verf == verf {
			f.note(w.v, w.from, w.to, done)
			continue
		}
		if t.calm(w.gen) {
			t.violated("the write verifier changed without a crash")
		}
		// Lost, maybe: it stays uncertain. What a user would write again is written as a new version now and then.
	}
}

func (d *chaosData) read(ctx context.Context) {
	t, f := d.t, d.f
	most := t.m.RSize()
	if d.file != nil {
		most *= 3
	}
	from, to := d.span(most)
	b := make([]byte, (to-from)*f.cell)
	for i := range b {
		b[i] = 0xfe
	}
	gen := d.begin()
	var n int
	var eof bool
	var err error
	if d.file != nil {
		n, err = d.file.ReadAt(b, int64(from*f.cell))
		if n < len(b) && errors.Is(err, io.EOF) {
			eof, err = true, nil
		}
	} else {
		n, eof, err = t.m.Read(ctx, d.fh, uint64(from*f.cell), b)
	}
	if t.judge("READ", gen, err); err != nil {
		return
	}
	if eof {
		clear(b[n:]) // nothing is as good as zeros
		n = len(b)
	}
	t.compared(n)
	w := ever
	if t.calm(gen) {
		w = calm
	}
	if err := f.check(b[:n], from*f.cell, w); err != nil {
		t.violated("READ: %w", err)
	}
}

// breakOff makes a READ or WRITE that its caller gives up soon. What it lent is its own again when the call returns: the
// buffer of a READ must not change any more, and that of a WRITE, which is overwritten, must not be read.
func (d *chaosData) breakOff(ctx context.Context) {
	t, f := d.t, d.f
	if d.file != nil { // which would not know what it has written
		return
	}
	ctx, cancel := t.c.f.WithTimeout(ctx, time.Duration(t.r.IntN([]int{20, 100, 1000}[t.r.IntN(3)]))*time.Microsecond)
	defer cancel()
	from, to := d.span(t.m.RSize())
	d.begin()
	if t.r.IntN(4) > 0 {
		b := bytes.Repeat([]byte{0xfe}, (to-from)*f.cell)
		if _, _, err := t.m.Read(ctx, d.fh, uint64(from*f.cell), b); err != nil {
			t.left = append(t.left, leftBuffer{b, slices.Clone(b)})
		}
		return
	}
	v := f.next()
	to = min(to, from+max(t.m.WSize()/f.cell, 1))
	b := f.data(v, from, to)
	f.size = max(f.size, to*f.cell)
	f.note(v, from, to, maybe)
	res, err := t.m.Write(ctx, d.fh, uint64(from*f.cell), b, nfsclient.FILE_SYNC)
	if err != nil {
		clear(b)
		f.note(v, from, to, late)
		return
	}
	f.note(v, from, from+res.Count/f.cell, done)
}

// leftBuffer is the buffer of a READ that was broken off, and what was in it then.
type leftBuffer struct{ b, was []byte }

func (t *chaosTask) checkLeft() {
	for _, l := range t.left {
		if !bytes.Equal(l.b, l.was) {
			t.violated("the buffer of a READ changed after the call had returned")
		}
	}
}

func (d *chaosData) truncate(ctx context.Context) {
	t, f := d.t, d.f
	to := t.r.IntN(len(f.cells) + 1)
	gen := d.begin()
	v := f.next()
	f.zeros[v] = true
	f.size = max(f.size, to*f.cell)
	f.note(v, to, len(f.cells), maybe)
	var err error
	if d.file != nil {
		err = d.file.Truncate(int64(to * f.cell))
	} else {
		_, err = t.m.SetAttr(ctx, d.fh, &nfsclient.Sattr{SetSize: true, Size: uint64(to * f.cell)}, nil)
	}
	settled := t.judge("SETATTR", gen, err)
	if err != nil {
		f.note(v, to, len(f.cells), unknown(settled))
		return
	}
	f.note(v, to, len(f.cells), done)
}
