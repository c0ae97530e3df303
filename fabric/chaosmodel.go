package fabric

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// chaosFile is a file as its only user knows it: for each cell, which versions of it may be there. Versions count up
// over the file, in the order in which calls were made; one task makes them, one after another.
type chaosFile struct {
	num   uint64 // of the file in its run, which its data comes from
	name  string
	cell  int // bytes
	cells []chaosCell
	last  uint32          // version
	zeros map[uint32]bool // versions of truncations, which leave zeros
	size  int             // that the file can have at most
	crash bool            // a crash may come at any time
	gen   uint32          // of the server, that now is of
}

// chaosCell is what may be in a cell. Version 0 is nothing: zeros, or the end of the file.
type chaosCell struct {
	poss []uint32 // that READ may see; never empty
	now  []uint32 // likewise, as long as the server has not crashed since gen
	kept []uint32 // that a crash may leave; never empty
	late []uint32 // of calls whose end is unknown: they may still happen, after later ones
}

func newChaosFile(num uint64, name string, cell, cells int, crash bool) *chaosFile {
	f := &chaosFile{num: num, name: name, cell: cell, crash: crash, cells: make([]chaosCell, cells), zeros: map[uint32]bool{0: true}}
	for i := range f.cells {
		f.cells[i] = chaosCell{poss: []uint32{0}, now: []uint32{0}, kept: []uint32{0}}
	}
	return f
}

// outcome is what a call's end says of its effect.
type outcome uint8

const (
	done    outcome = iota // it happened, and stays
	fresh                  // it happened, and no crash has come since it began
	volatil                // it happened, and a crash may have taken it back
	maybe                  // it happened or not, and will not later
	late                   // it may happen at any time
)

// next is the version of a call that is about to be made.
func (f *chaosFile) next() uint32 {
	f.last++
	return f.last
}

// begin is the beginning of a call in generation gen of the server.
func (f *chaosFile) begin(gen uint32) {
	if f.gen == gen {
		return
	}
	f.gen = gen
	for i := range f.cells {
		f.cells[i].now = slices.Clone(f.cells[i].poss)
	}
}

// note says what became of version v in cells [from, to).
func (f *chaosFile) note(v uint32, from, to int, o outcome) {
	for i := from; i < to; i++ {
		c := &f.cells[i]
		c.poss, c.now, c.kept = c.with(c.poss, v), c.with(c.now, v), c.with(c.kept, v)
		switch o {
		case done:
			c.poss, c.now, c.kept = c.settled(c.poss, v), c.settled(c.now, v), c.settled(c.kept, v)
		case fresh:
			c.now = c.settled(c.now, v)
			if !f.crash {
				c.poss = c.settled(c.poss, v)
			}
		case late:
			c.late = append(c.late, v)
		}
	}
}

func (*chaosCell) with(list []uint32, v uint32) []uint32 {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// settled is list when version v is there to stay: what is older is gone.
func (c *chaosCell) settled(list []uint32, v uint32) []uint32 {
	return slices.DeleteFunc(list, func(x uint32) bool { return x < v && !slices.Contains(c.late, x) })
}

// fill makes the content of a version of cell i, from its byte at on.
func (f *chaosFile) fill(b []byte, v uint32, i, at int) {
	if f.zeros[v] {
		clear(b)
		return
	}
	var word [8]byte
	for k := 0; k < len(b); k++ {
		if n := at + k; k == 0 || n%8 == 0 {
			x := f.num<<40 ^ uint64(i)<<24 ^ uint64(v)<<52 ^ uint64(n/8) + 0x9e3779b97f4a7c15
			x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
			x = (x ^ x>>27) * 0x94d049bb133111eb
			binary.LittleEndian.PutUint64(word[:], x^x>>31|0x0101010101010101) // no byte is 0
		}
		b[k] = word[(at+k)%8]
	}
}

// data is version v of cells [from, to).
func (f *chaosFile) data(v uint32, from, to int) []byte {
	b := make([]byte, (to-from)*f.cell)
	for i := from; i < to; i++ {
		f.fill(b[(i-from)*f.cell:][:f.cell], v, i, 0)
	}
	return b
}

// when says which possibilities hold.
type when uint8

const (
	calm    when = iota // no crash since begin
	ever                // a crash may have come
	crashed             // one has, just now
)

func (c *chaosCell) at(w when) []uint32 {
	switch w {
	case calm:
		return c.now
	case ever:
		return c.poss
	}
	return c.kept
}

// check compares what was read at off with what may be there.
func (f *chaosFile) check(b []byte, off int, w when) error {
	var buf []byte
	for len(b) > 0 {
		i, at := off/f.cell, off%f.cell
		if i >= len(f.cells) {
			return fmt.Errorf("file %s has data at %d, beyond all that was written", f.name, off)
		}
		n := min(len(b), f.cell-at)
		ok := make([]bool, n)
		list := f.cells[i].at(w)
		for _, v := range list {
			buf = append(buf[:0], make([]byte, n)...)
			f.fill(buf, v, i, at)
			for k := range buf {
				ok[k] = ok[k] || buf[k] == b[k]
			}
		}
		if k := slices.Index(ok, false); k >= 0 {
			return fmt.Errorf("file %s, byte %d (cell %d of %d bytes): %#02x is of %s; possible are versions %v",
				f.name, off+k, i, f.cell, b[k], f.whose(b, i, at, k, n), list)
		}
		b, off = b[n:], off+n
	}
	return nil
}

// whose tells which version a wrong byte is of.
func (f *chaosFile) whose(b []byte, i, at, k, n int) string {
	buf := make([]byte, n)
	for v := range f.last + 1 {
		f.fill(buf, v, i, at)
		m := min(n, k+8)
		if string(buf[k:m]) == string(b[k:m]) {
			return fmt.Sprintf("version %d", v)
		}
	}
	return "no version"
}

// checkAll compares a whole file, of which b is all.
func (f *chaosFile) checkAll(b []byte, w when) error {
	if len(b) > f.size {
		return fmt.Errorf("file %s is %d bytes long, can be %d at most", f.name, len(b), f.size)
	}
	all := make([]byte, len(f.cells)*f.cell) // what is missing is zeros
	copy(all, b)
	return f.check(all, 0, w)
}
