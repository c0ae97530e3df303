package fabric

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"example.org/nfsrdma/internal/report"
)

// sweepFile keeps the results of a sweep: a line a cell, appended as they come.
type sweepFile struct {
	s       *sweep
	f       *os.File
	last    int  // place of the last line
	ordered bool // lines are in the order of the matrix
	line    []byte
}

// openSweepFile takes in the results that the file has of this sweep. A torn last line is cut off.
func openSweepFile(name string, s *sweep) (*sweepFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	x := &sweepFile{s: s, f: f, last: -1, ordered: true}
	if err := x.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("fabric: sweep: %s: %w", name, err), f.Close())
	}
	return x, nil
}

func (x *sweepFile) load() error {
	if err := syscall.Flock(int(x.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("in use by another run (%w); shards want a file each", err)
	}
	cells, err := report.ReadCells(x.f)
	var torn *report.TornError
	if errors.As(err, &torn) {
		err = x.f.Truncate(torn.At)
	}
	if err != nil {
		return err
	}
	for i := range cells {
		c := &cells[i]
		if c.Sweep != x.s.hash || c.Of != x.s.of {
			return fmt.Errorf("it holds cells of another sweep (%s with %d cells, this is %s with %d): name another file or remove it",
				c.Sweep, c.Of, x.s.hash, x.s.of)
		}
		if old := x.s.done[c.Index]; old != nil {
			return fmt.Errorf("cell %d (%s) is double", c.Index, c.Params)
		}
		x.s.done[c.Index] = c
		x.note(c)
	}
	return nil
}

func (x *sweepFile) note(c *SweepCell) {
	x.ordered = x.ordered && c.Index > x.last
	x.last = c.Index
}

// append writes one line in one piece.
func (x *sweepFile) append(c *SweepCell) (err error) {
	if x.line, err = report.AppendCell(x.line[:0], c); err != nil {
		return err
	}
	x.note(c)
	_, err = x.f.Write(x.line)
	return err
}

// close brings the lines into their order if the run is complete.
func (x *sweepFile) close(complete bool) (err error) {
	if complete && !x.ordered {
		err = replaceFile(x.f.Name(), func(w io.Writer) error {
			for _, c := range x.s.done {
				if c == nil {
					continue
				}
				if x.line, err = report.AppendCell(x.line[:0], c); err != nil {
					return err
				}
				if _, err := w.Write(x.line); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return errors.Join(err, x.f.Close())
}
