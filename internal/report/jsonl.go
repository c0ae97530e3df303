package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// AppendCell appends the cell as one line of JSON, newline included.
func AppendCell(b []byte, c *Cell) ([]byte, error) {
	w := bytes.NewBuffer(b)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	err := enc.Encode(c)
	return w.Bytes(), err
}

// WriteJSONL writes a line for each cell.
func WriteJSONL(w io.Writer, cells []Cell) error {
	var line []byte
	for i := range cells {
		var err error
		if line, err = AppendCell(line[:0], &cells[i]); err != nil {
			return err
		}
		if _, err = w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes one object: the sweep, its knobs with their values, and the cells, one a line.
func WriteJSON(w io.Writer, cells []Cell) error {
	if len(cells) == 0 {
		return errors.New("no cells")
	}
	b, err := quote(cells[0].Sweep)
	if err != nil {
		return err
	}
	b = fmt.Appendf(nil, "{\"sweep\":%s,\"of\":%d,\"knobs\":{", b, cells[0].Of)
	for i, a := range axes(cells) {
		if i > 0 {
			b = append(b, ',')
		}
		k, err := quote(a.Knob)
		if err != nil {
			return err
		}
		b = append(append(b, k...), ':', '[')
		for j, v := range a.Values {
			if j > 0 {
				b = append(b, ',')
			}
			if plain(v.Value) {
				b = append(b, v.Value...)
				continue
			}
			q, err := quote(v.Value)
			if err != nil {
				return err
			}
			b = append(b, q...)
		}
		b = append(b, ']')
	}
	b = append(b, "},\"cells\":[\n"...)
	for i := range cells {
		if b, err = AppendCell(b, &cells[i]); err != nil {
			return err
		}
		if i < len(cells)-1 {
			b = append(b[:len(b)-1], ",\n"...)
		}
	}
	_, err = w.Write(append(b, "]}\n"...))
	return err
}

// TornError says that the last line of a file has no end: its writer was stopped.
type TornError struct{ At int64 } // length of the file without it

func (e *TornError) Error() string {
	return fmt.Sprintf("the last line, from byte %d on, is torn", e.At)
}

// ReadCells reads JSON lines, or the object of WriteJSON. If the last line is torn, the cells before it
// come with a TornError.
func ReadCells(r io.Reader) ([]Cell, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if cells, ok, err := readDocument(b); ok {
		return cells, err
	}
	var cells []Cell
	at := 0
	for n := 1; at < len(b); n++ {
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			if err := checkKnobs(cells); err != nil {
				return nil, err
			}
			return cells, &TornError{int64(at)}
		}
		line := b[at : at+end]
		at += end + 1
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		c, err := readCell(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		cells = append(cells, c)
	}
	return cells, checkKnobs(cells)
}

// readCell reads a line, and refuses what no sweep writes.
func readCell(line []byte) (c Cell, err error) {
	if err := json.Unmarshal(line, &c); err != nil {
		return c, fmt.Errorf("not a cell of a sweep: %w", err)
	}
	return c, c.check()
}

func (c *Cell) check() error {
	if c.Sweep == "" || c.Of < 1 || c.Index < 0 || c.Index >= c.Of {
		return fmt.Errorf("not a cell of a sweep: sweep %q, cell %d of %d", c.Sweep, c.Index, c.Of)
	}
	if len(c.Params) == 0 {
		return errors.New("not a cell of a sweep: it has no knobs")
	}
	for i, p := range c.Params {
		if _, double := c.Params[:i].Get(p.Knob); double {
			return fmt.Errorf("cell %d has the knob %q twice", c.Index, p.Knob)
		}
	}
	l := &c.Latency
	if min(c.Throughput, c.Ops, c.Bound.Busy, c.Bound.Waited) < 0 || min(c.Calls, c.Bytes, c.Elapsed, int64(c.Size), l.Mean, l.P50, l.P90, l.P99, l.Max) < 0 {
		return fmt.Errorf("cell %d has a negative figure", c.Index)
	}
	return nil
}

// checkKnobs fails unless all cells have the same knobs in one order.
func checkKnobs(cells []Cell) error {
	same := func(a, b Param) bool { return a.Knob == b.Knob }
	for i := range cells {
		if !slices.EqualFunc(cells[i].Params, cells[0].Params, same) {
			return fmt.Errorf("cell %d has other knobs (%s) than cell %d (%s)", cells[i].Index, cells[i].Params, cells[0].Index, cells[0].Params)
		}
	}
	return nil
}

// readDocument reads the object of WriteJSON; ok is false if b begins otherwise.
func readDocument(b []byte) (cells []Cell, ok bool, err error) {
	var d struct {
		Cells json.RawMessage `json:"cells"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if dec.Decode(&d) != nil || d.Cells == nil {
		return nil, false, nil
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, true, fmt.Errorf("more after the end of the JSON object, at byte %d", dec.InputOffset())
	}
	if err := json.Unmarshal(d.Cells, &cells); err != nil {
		return nil, true, fmt.Errorf("cells: %w", err)
	}
	for i := range cells {
		if err := cells[i].check(); err != nil {
			return nil, true, err
		}
	}
	return cells, true, checkKnobs(cells)
}
