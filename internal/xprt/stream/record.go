package stream

import (
	"errors"
	"io"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
)

// Errors of records, after which the stream cannot be trusted; match with errors.Is.
var (
	ErrTooLong   = errors.New("record longer than is allowed")
	ErrFragments = errors.New("record in too many fragments")
	// ErrTruncated is the end of the stream in the middle of a record.
	ErrTruncated = errors.New("record cut off by the end of the stream")
)

// MaxFragments bounds the fragments of a record. TI-RPC makes them of some 9 KB.
const MaxFragments = 4096

// Reader reads records. One task may use it.
type Reader struct {
	// Max is the longest record that is taken, bytes.
	Max int
	// Stall is how long a record may take once its first bytes are there; 0 is for ever.
	Stall sched.Duration

	c     Conn
	buf   []byte
	r, w  int  // buf[r:w] is not yet read
	set   bool // the connection has a read timeout
	armed bool // it is of this record

	begun bool // a record's first byte has come
	left  int  // of the fragment
	last  bool // it is the record's last
	total int  // announced so far
	frags int
}

// NewReader reads from c, of which nobody else may read. Data that is asked for in pieces longer than buffer bytes
// does not go through the buffer.
func NewReader(c Conn, buffer, most int, stall sched.Duration) *Reader {
	return &Reader{Max: most, Stall: stall, c: c, buf: make([]byte, max(buffer, rpc.RecordMarkLen)), last: true}
}

// Next waits for a record. What is left of the one before is passed over. A stream that ends between records gives io.EOF.
func (r *Reader) Next() error {
	if err := r.Skip(); err != nil {
		return err
	}
	r.begun = r.w > r.r
	r.armed = false
	if r.set && !r.begun {
		r.set = false
		r.c.ReadTimeout(0)
	}
	r.total, r.frags, r.last = 0, 0, false
	if err := r.mark(); err != nil {
		r.last, r.left = true, 0
		return err
	}
	return nil
}

// Restart lets the time that Stall allows begin anew, after a wait that was not the peer's fault.
func (r *Reader) Restart() { r.armed = false }

// mark reads the mark of a fragment.
func (r *Reader) mark() error {
	for r.w-r.r < rpc.RecordMarkLen {
		if err := r.fill(); err != nil {
			return err
		}
	}
	size, last, n := rpc.ConsumeRecordMark(r.buf[r.r:r.w])
	r.r += n
	r.frags++
	switch {
	case size > r.Max-r.total:
		return ErrTooLong
	case r.frags > MaxFragments:
		return ErrFragments
	}
	r.left, r.last = size, last
	r.total += size
	return nil
}

// Len is how many bytes of the record are left in fragments that are announced. whole: no others follow.
func (r *Reader) Len() (n int, whole bool) { return r.left, r.last }

// advance finds the next fragment that is not empty; false at the end of the record.
func (r *Reader) advance() (bool, error) {
	for r.left == 0 {
		if r.last {
			return false, nil
		}
		if err := r.mark(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Read reads what there is of the record, at most len(b) bytes, and io.EOF at its end.
func (r *Reader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if ok, err := r.advance(); !ok {
		if err == nil {
			err = io.EOF
		}
		return 0, err
	}
	b = b[:min(len(b), r.left)]
	if r.w == r.r {
		if len(b) >= len(r.buf) {
			n, err := r.read(b)
			r.left -= n
			return n, err
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, r.buf[r.r:r.w])
	r.r += n
	r.left -= n
	return n, nil
}

// Full reads len(b) bytes of the record. A record that has fewer gives io.ErrUnexpectedEOF.
func (r *Reader) Full(b []byte) error {
	for len(b) > 0 {
		n, err := r.Read(b)
		b = b[n:]
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Skip passes over the rest of the record.
func (r *Reader) Skip() error {
	for {
		if ok, err := r.advance(); !ok {
			return err
		}
		if r.w == r.r {
			if err := r.fill(); err != nil {
				return err
			}
		}
		n := min(r.left, r.w-r.r)
		r.r += n
		r.left -= n
	}
}

// fill reads into the buffer behind what is there.
func (r *Reader) fill() error {
	if r.r > 0 {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	n, err := r.read(r.buf[r.w:])
	r.w += n
	return err
}

// read waits for the connection, in the middle of a record for no longer than Stall in all.
func (r *Reader) read(b []byte) (int, error) {
	if r.begun && !r.armed && r.Stall > 0 {
		r.set, r.armed = true, true
		r.c.ReadTimeout(r.Stall)
	}
	n, err := r.c.Read(b)
	switch {
	case n > 0:
		r.begun = true
		return n, nil
	case err == nil:
		return 0, io.ErrNoProgress
	case err == io.EOF && r.begun:
		return 0, ErrTruncated
	}
	return 0, err
}
