package xdr

// Reader decodes items one after another. The first failure sticks: later calls give zero values
// and leave the Reader where it failed. A Reader is a plain value that stays on its user's stack.
type Reader struct {
	buf []byte
	off int
	err error // nil while good
	// field and at say where err happened.
	field string
	at    int
}

// NewReader reads from the front of b.
func NewReader(b []byte) Reader { return Reader{buf: b} }

// Fail records err for the item at offset off, unless something failed before.
func (r *Reader) Fail(field string, off int, err error) {
	if r.err == nil {
		r.err, r.field, r.at = err, field, off
		r.buf = r.buf[:r.off] // so that later reads fail without a test of err
	}
}

func (r *Reader) fail(field string, n int) { r.Fail(field, r.off, reason(n)) }

// Ok reports whether nothing has failed.
func (r *Reader) Ok() bool { return r.err == nil }

// Off is the offset of the next item, in bytes.
func (r *Reader) Off() int { return r.off }

// Len is the number of bytes left; 0 after a failure.
func (r *Reader) Len() int { return len(r.buf) - r.off }

// Err is nil or an [*Error]; only a failure allocates.
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return &Error{Field: r.field, Off: r.at, Err: r.err}
}

// Done gives the number of bytes used and nil, or -1 and the error.
func (r *Reader) Done() (n int, err error) {
	if r.err != nil {
		return -1, r.Err()
	}
	return r.off, nil
}

// Uint32 reads an unsigned int.
func (r *Reader) Uint32(field string) uint32 {
	v, n := ConsumeUint32(r.buf[r.off:])
	if n < 0 {
		r.fail(field, n)
		return 0
	}
	r.off += n
	return v
}

// Uint64 reads an unsigned hyper.
func (r *Reader) Uint64(field string) uint64 {
	v, n := ConsumeUint64(r.buf[r.off:])
	if n < 0 {
		r.fail(field, n)
		return 0
	}
	r.off += n
	return v
}

// Bool reads a bool.
func (r *Reader) Bool(field string) bool {
	v, n := ConsumeBool(r.buf[r.off:])
	if n < 0 {
		r.fail(field, n)
		return false
	}
	r.off += n
	return v
}

// Enum reads an enum with the values low to high.
func (r *Reader) Enum(field string, low, high uint32) uint32 {
	at := r.off
	v := r.Uint32(field)
	if r.err == nil && (v < low || v > high) {
		r.Fail(field, at, ErrInvalid)
		return low
	}
	return v
}

// Opaque reads variable-length opaque data of at most limit bytes; it aliases the input.
func (r *Reader) Opaque(field string, limit int) []byte {
	v, n := ConsumeOpaque(r.buf[r.off:], limit)
	if n < 0 {
		r.fail(field, n)
		return nil
	}
	r.off += n
	return v
}

// FixedOpaque reads fixed-length opaque data of size bytes; it aliases the input.
func (r *Reader) FixedOpaque(field string, size int) []byte {
	v, n := ConsumeFixedOpaque(r.buf[r.off:], size)
	if n < 0 {
		r.fail(field, n)
		return nil
	}
	r.off += n
	return v
}

// Count reads the number of elements that follow, each at least size bytes on the wire. A number
// above limit, or one that the rest of the input cannot hold, is a failure, so that what it gives
// may be allocated and multiplied.
func (r *Reader) Count(field string, size, limit int) int {
	at := r.off
	v := r.Uint32(field)
	switch {
	case r.err != nil:
		return 0
	case uint64(v) > uint64(limit):
		r.Fail(field, at, ErrTooLong)
		return 0
	case uint64(v) > uint64(r.Len()/size):
		r.Fail(field, at, ErrShort)
		return 0
	}
	return int(v)
}

// Span gives the input from offset start to offset end, both already passed; it aliases the input.
func (r *Reader) Span(start, end int) []byte { return r.buf[start:end:end] }
