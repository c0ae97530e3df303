package stream_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
)

// canned is a Conn that gives bytes in pieces of at most step, and then the end.
type canned struct {
	b        []byte
	step     int
	end      error            // nil is io.EOF
	timeouts []sched.Duration // asked for
}

func (c *canned) Read(b []byte) (int, error) {
	if len(c.b) == 0 {
		if c.end != nil {
			return 0, c.end
		}
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), c.step)], c.b)
	c.b = c.b[n:]
	return n, nil
}

func (c *canned) Write(*net.Buffers) error      { return errors.New("read only") }
func (c *canned) ReadTimeout(d sched.Duration)  { c.timeouts = append(c.timeouts, d) }
func (c *canned) WriteTimeout(d sched.Duration) {}
func (c *canned) Close() error                  { return nil }
func (c *canned) LocalAddr() string             { return "" }
func (c *canned) PeerAddr() string              { return "" }

// record appends a record cut into fragments of so many bytes.
func record(b, data []byte, size int) []byte {
	for {
		n := min(size, len(data))
		last := n == len(data)
		b = rpc.AppendRecordMark(b, n, last)
		b = append(b, data[:n]...)
		if data = data[n:]; last {
			return b
		}
	}
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func TestRecords(t *testing.T) {
	want := [][]byte{pattern(1), {}, pattern(100), pattern(5000), pattern(64), pattern(12_345)}
	for _, size := range []int{1, 7, 100, 4096, 1 << 20} {
		for _, step := range []int{1, 3, 63, 4096, 1 << 20} {
			var b []byte
			for _, w := range want {
				if size == 1 && len(w) > 1000 { // more fragments than are allowed
					w = w[:1000]
				}
				b = record(b, w, size)
			}
			r := stream.NewReader(&canned{b: b, step: step}, 64, 1<<20, 0)
			for _, w := range want {
				if size == 1 && len(w) > 1000 {
					w = w[:1000]
				}
				require.NoError(t, r.Next())
				got, err := io.ReadAll(r)
				require.NoError(t, err)
				require.True(t, bytes.Equal(w, got), "fragments of %d in pieces of %d", size, step)
			}
			require.ErrorIs(t, r.Next(), io.EOF)
			require.ErrorIs(t, r.Next(), io.EOF)
		}
	}
}

func TestFullSkipAndLen(t *testing.T) {
	b := record(nil, pattern(300), 200)
	b = record(b, pattern(10), 10)
	r := stream.NewReader(&canned{b: b, step: 50}, 64, 1000, 0)
	require.NoError(t, r.Next())
	n, whole := r.Len()
	assert.Equal(t, 200, n)
	assert.False(t, whole)
	buf := make([]byte, 250)
	require.NoError(t, r.Full(buf))
	assert.Equal(t, pattern(250), buf)
	n, whole = r.Len()
	assert.Equal(t, 50, n)
	assert.True(t, whole)
	require.NoError(t, r.Next(), "passes over the rest")
	require.ErrorIs(t, r.Full(make([]byte, 11)), io.ErrUnexpectedEOF)
	require.NoError(t, r.Skip())
	require.ErrorIs(t, r.Next(), io.EOF)
}

func TestBadRecords(t *testing.T) {
	many := bytes.Repeat([]byte{0, 0, 0, 0}, stream.MaxFragments+1)
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"too long", rpc.AppendRecordMark(nil, 1001, true), stream.ErrTooLong},
		{"longest mark", []byte{0xff, 0xff, 0xff, 0xff}, stream.ErrTooLong},
		{"too long together", record(nil, pattern(1001), 600), stream.ErrTooLong},
		{"empty fragments", many, stream.ErrFragments},
		{"half a mark", []byte{0x80, 0}, stream.ErrTruncated},
		{"mark alone", rpc.AppendRecordMark(nil, 5, true), stream.ErrTruncated},
		{"half a record", record(nil, pattern(100), 100)[:50], stream.ErrTruncated},
		{"no last fragment", append(rpc.AppendRecordMark(nil, 1, false), 9), stream.ErrTruncated},
	} {
		r := stream.NewReader(&canned{b: c.b, step: 1 << 20}, 64, 1000, 0)
		err := r.Next()
		if err == nil {
			_, err = io.ReadAll(r)
		}
		assert.ErrorIs(t, err, c.want, c.name)
	}
}

// TestStall: the time is limited from a record's first byte to its last, and not between records.
func TestStall(t *testing.T) {
	c := &canned{b: record(nil, pattern(500), 500), step: 100}
	c.b = append(c.b, record(nil, pattern(8), 8)...)
	r := stream.NewReader(c, 64, 1000, sched.Second)
	require.NoError(t, r.Next())
	require.NoError(t, r.Skip())
	assert.Equal(t, []sched.Duration{sched.Second}, c.timeouts, "once a record")
	require.NoError(t, r.Next())
	require.NoError(t, r.Skip())
	c.end = os.ErrDeadlineExceeded
	require.ErrorIs(t, r.Next(), os.ErrDeadlineExceeded)
	assert.Zero(t, c.timeouts[len(c.timeouts)-1])

	c = &canned{b: record(nil, pattern(500), 500)[:300], step: 100, end: os.ErrDeadlineExceeded}
	r = stream.NewReader(c, 64, 1000, sched.Second)
	require.NoError(t, r.Next())
	r.Restart()
	require.ErrorIs(t, r.Skip(), os.ErrDeadlineExceeded)
	assert.Len(t, c.timeouts, 1)
}

// parse is what the records of b are, by the book, and whether all of it is good.
func parse(b []byte, most int) (records [][]byte, good bool) {
	for len(b) > 0 {
		rec := []byte{}
		for frags := 1; ; frags++ {
			size, last, n := rpc.ConsumeRecordMark(b)
			if n < 0 || frags > stream.MaxFragments || size > most-len(rec) || size > len(b)-n {
				return records, false
			}
			rec = append(rec, b[n:n+size]...)
			b = b[n+size:]
			if last {
				break
			}
		}
		records = append(records, rec)
	}
	return records, true
}

func FuzzReader(f *testing.F) {
	f.Add(record(record(nil, pattern(100), 30), pattern(3), 3), uint8(7), uint8(5))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint8(1), uint8(0))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0}, uint8(2), uint8(3))
	f.Add(record(nil, pattern(900), 899)[:500], uint8(200), uint8(255))
	f.Fuzz(func(t *testing.T, b []byte, step, piece uint8) {
		const most = 1000
		want, good := parse(b, most)
		c := &canned{b: b, step: int(step) + 1}
		r := stream.NewReader(c, int(piece), most, sched.Second)
		for i := 0; ; i++ {
			err := r.Next()
			if err == io.EOF {
				require.True(t, good, "a bad end was taken for the end")
				require.Len(t, want, i)
				return
			}
			var got []byte
			buf := make([]byte, int(piece)+1)
			for err == nil {
				var n int
				n, err = r.Read(buf)
				got = append(got, buf[:n]...)
			}
			require.LessOrEqual(t, len(got), most)
			if err != io.EOF {
				require.False(t, good, "%v", err)
				require.Len(t, want, i)
				return
			}
			require.Less(t, i, len(want))
			require.True(t, bytes.Equal(want[i], got))
		}
	})
}
