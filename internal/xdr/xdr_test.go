package xdr_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"example.org/nfsrdma/internal/xdr"
)

func TestAppend(t *testing.T) {
	// The string is the example of RFC 4506 section 7.
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"uint32", xdr.AppendUint32(nil, 0x01020304), "\x01\x02\x03\x04"},
		{"uint64", xdr.AppendUint64(nil, 0x0102030405060708), "\x01\x02\x03\x04\x05\x06\x07\x08"},
		{"true", xdr.AppendBool(nil, true), "\x00\x00\x00\x01"},
		{"false", xdr.AppendBool(nil, false), "\x00\x00\x00\x00"},
		{"string", xdr.AppendString(nil, "sillyprog"), "\x00\x00\x00\x09sillyprog\x00\x00\x00"},
		{"opaque", xdr.AppendOpaque(nil, []byte("(quit)")), "\x00\x00\x00\x06(quit)\x00\x00"},
		{"opaque of whole words", xdr.AppendOpaque(nil, []byte("john")), "\x00\x00\x00\x04john"},
		{"opaque of nothing", xdr.AppendOpaque(nil, nil), "\x00\x00\x00\x00"},
		{"fixed opaque", xdr.AppendFixedOpaque([]byte("....."), []byte("abc")), ".....abc\x00"},
	} {
		assert.Equal(t, c.want, string(c.got), c.name)
	}
}

func TestPad(t *testing.T) {
	for n, want := range []int{0, 3, 2, 1, 0, 3, 2, 1} {
		assert.Equal(t, want, xdr.Pad(n))
		assert.Equal(t, n+want, xdr.Roundup(n))
	}
}

func TestConsumeBool(t *testing.T) {
	for _, w := range []uint32{2, 0x100, math.MaxUint32} {
		_, n := xdr.ConsumeBool(binary.BigEndian.AppendUint32(nil, w))
		assert.Negative(t, n, "%#x is not a bool", w)
	}
}

func TestConsumeOpaqueAliases(t *testing.T) {
	b := xdr.AppendOpaque(nil, []byte("abcde"))
	v, n := xdr.ConsumeOpaque(b, 5)
	require.Equal(t, len(b), n)
	b[4] = 'X'
	assert.Equal(t, "Xbcde", string(v))
	assert.Equal(t, 5, cap(v), "an append must not write over what follows")

	s, n := xdr.ConsumeString(b, 5)
	require.Equal(t, len(b), n)
	b[4] = 'Y'
	assert.Equal(t, "Xbcde", s)
}

func TestConsumeOpaqueBounds(t *testing.T) {
	b := xdr.AppendOpaque(nil, []byte("abcde"))
	_, n := xdr.ConsumeOpaque(b, 4)
	assert.Negative(t, n, "above the limit")
	for i := range b {
		_, n := xdr.ConsumeOpaque(b[:i], xdr.NoLimit)
		assert.Negative(t, n, "cut to %d", i)
	}
	b[len(b)-1] = 0xff
	v, n := xdr.ConsumeOpaque(b, 5)
	assert.Equal(t, len(b), n, "a pad other than zero is tolerated")
	assert.Equal(t, "abcde", string(v))
	_, n = xdr.ConsumeFixedOpaque(b, -1)
	assert.Negative(t, n)
}

func TestReader(t *testing.T) {
	b := xdr.AppendUint32(nil, 7)
	b = xdr.AppendUint64(b, 1<<40)
	b = xdr.AppendBool(b, true)
	b = xdr.AppendString(b, "name")
	b = xdr.AppendFixedOpaque(b, []byte("verf"))
	b = append(b, "tail"...)
	r := xdr.NewReader(b)
	assert.EqualValues(t, 7, r.Uint32("a"))
	assert.Equal(t, uint64(1<<40), r.Uint64("b"))
	assert.True(t, r.Bool("c"))
	assert.Equal(t, "name", string(r.Opaque("d", 4)))
	assert.Equal(t, "verf", string(r.FixedOpaque("e", 4)))
	assert.Equal(t, 4, r.Len())
	assert.Equal(t, "verf", string(r.Span(24, r.Off())))
	n, err := r.Done()
	require.NoError(t, err)
	assert.Equal(t, 28, n)
}

func TestReaderError(t *testing.T) {
	word := func(v uint32) []byte { return xdr.AppendUint32(xdr.AppendUint32(nil, 0), v) }
	for _, c := range []struct {
		name string
		in   []byte
		read func(r *xdr.Reader)
		want xdr.Error
	}{
		{"short", word(1)[:6], func(r *xdr.Reader) { r.Uint32("f") }, xdr.Error{Field: "f", Off: 4, Err: xdr.ErrShort}},
		{"hyper", word(1), func(r *xdr.Reader) { r.Uint64("f") }, xdr.Error{Field: "f", Off: 4, Err: xdr.ErrShort}},
		{"bool", word(2), func(r *xdr.Reader) { r.Bool("f") }, xdr.Error{Field: "f", Off: 4, Err: xdr.ErrInvalid}},
		{"enum above", word(4), func(r *xdr.Reader) { r.Enum("f", 1, 3) }, xdr.Error{Field: "f", Off: 4, Err: xdr.ErrInvalid}},
		{"enum below", word(0), func(r *xdr.Reader) { r.Enum("f", 1, 3) }, xdr.Error{Field: "f", Off: 4, Err: xdr.ErrInvalid}},
		{"opaque", word(9), func(r *xdr.Reader) { r.Opaque("f", 8) }, xdr.Error{Field: "f", Off: 4, Err: xdr.ErrTooLong}},
		{"fixed", word(9), func(r *xdr.Reader) { r.FixedOpaque("f", 5) }, xdr.Error{Field: "f", Off: 4, Err: xdr.ErrShort}},
		{"count", word(1), func(r *xdr.Reader) { r.Count("f", 4, 8) }, xdr.Error{Field: "f", Off: 4, Err: xdr.ErrShort}},
		{"count limit", word(9), func(r *xdr.Reader) { r.Count("f", 4, 8) }, xdr.Error{Field: "f", Off: 4, Err: xdr.ErrTooLong}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := xdr.NewReader(c.in)
			r.Uint32("before")
			c.read(&r)
			assert.False(t, r.Ok())
			assert.Zero(t, r.Len())
			assert.Zero(t, r.Uint32("later"), "nothing is read behind a failure")
			r.Fail("later", 0, xdr.ErrInvalid)
			n, err := r.Done()
			assert.Equal(t, -1, n)
			var e *xdr.Error
			require.True(t, errors.As(err, &e))
			assert.Equal(t, c.want, *e)
			assert.ErrorIs(t, err, c.want.Err)
		})
	}
	err := &xdr.Error{Field: "gids", Off: 12, Err: xdr.ErrTooLong}
	assert.EqualError(t, err, "xdr: gids at byte 12: length above limit")
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint32().Draw(t, "uint32")
		h := rapid.Uint64().Draw(t, "uint64")
		f := rapid.Bool().Draw(t, "bool")
		o := rapid.SliceOf(rapid.Byte()).Draw(t, "opaque")
		b := xdr.AppendUint32(nil, u)
		b = xdr.AppendOpaque(b, o)
		b = xdr.AppendUint64(b, h)
		b = xdr.AppendBool(b, f)
		require.Zero(t, len(b)%4)
		r := xdr.NewReader(b)
		require.Equal(t, u, r.Uint32("u"))
		require.Equal(t, string(o), string(r.Opaque("o", len(o))))
		require.Equal(t, h, r.Uint64("h"))
		require.Equal(t, f, r.Bool("f"))
		n, err := r.Done()
		require.NoError(t, err)
		require.Equal(t, len(b), n)
	})
}

// hostile are lengths that no input here can hold.
var hostile = []uint32{1 << 28, 1 << 31, math.MaxUint32}

func TestHostileLengthsAllocateNothing(t *testing.T) {
	for _, v := range hostile {
		b := append(binary.BigEndian.AppendUint32(nil, v), "some bytes"...)
		allocs := testing.AllocsPerRun(10, func() {
			_, n := xdr.ConsumeOpaque(b, xdr.NoLimit)
			r := xdr.NewReader(b)
			q := xdr.NewReader(b)
			if n >= 0 || r.Opaque("o", xdr.NoLimit) != nil || q.Count("n", 4, xdr.NoLimit) != 0 || r.Ok() || q.Ok() {
				t.Fatal("taken")
			}
		})
		assert.Zero(t, allocs)
	}
}
