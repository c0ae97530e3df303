package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// recorder notes what a demux says.
type recorder struct{ log []string }

func (r *recorder) begin(name string) { r.log = append(r.log, "begin "+name) }
func (r *recorder) output(b []byte)   { r.log = append(r.log, string(b)) }
func (r *recorder) end(name string, status int) {
	r.log = append(r.log, fmt.Sprint("end ", name, " ", status))
}

func newRecorded(token string) (*demux, *recorder) {
	r := &recorder{}
	return &demux{token: token, h: r, timer: func(name string, running bool) {
		r.log = append(r.log, fmt.Sprint("timer ", name, " ", running))
	}}, r
}

func TestDemux(t *testing.T) {
	const text = "\x1eTOK begin a\none\nno end of line\x1eTOK end a 7\n\x1eTOK over\n"
	want := []string{"timer a true", "begin a", "one\n", "no end of line", "timer a false", "end a 7"}
	for size := range len(text) {
		d, r := newRecorded("TOK")
		for b := text; len(b) > 0; {
			n := min(size+1, len(b))
			w, err := d.Write([]byte(b[:n]))
			assert.NoError(t, err)
			assert.Equal(t, n, w)
			b = b[n:]
		}
		d.flush()
		assert.Equal(t, want, r.log, "in pieces of %d", size+1)
		assert.True(t, d.over)
	}
}

// What a program prints is never taken for init's, whatever it looks like.
func TestDemuxTakesOnlyItsToken(t *testing.T) {
	d, r := newRecorded("TOK")
	_, _ = d.Write([]byte("\x1eOTHER end a 0\n\x1e\nTOK end a 0\n\x1eTOK what is this\n\x1eTOK end a x\nleft"))
	assert.False(t, d.over)
	assert.Equal(t, []string{"\x1eOTHER end a 0\n", "\x1e\n", "TOK end a 0\n", "timer a false", "end a 255"}, r.log)
	d.flush()
	d.flush()
	assert.Equal(t, "left", r.log[len(r.log)-1])
}

func TestDemuxHoldsNoEndlessLine(t *testing.T) {
	d, r := newRecorded("TOK")
	_, _ = d.Write([]byte(strings.Repeat("x", maxLine)))
	assert.Empty(t, r.log)
	_, _ = d.Write([]byte("y"))
	assert.Len(t, r.log, 1)
	assert.Empty(t, d.buf)
}
