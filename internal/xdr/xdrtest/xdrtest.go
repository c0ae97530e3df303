package xdrtest

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/xdr"
)

var rewrite = flag.Bool("rewrite-cases", false, "write the golden cases anew")

// Case is a value of some message type with its codec.
type Case struct {
	Name   string
	value  fmt.Stringer
	encode func() []byte
	decode func(b []byte) (v fmt.Stringer, n int, err error)
}

// Of makes a case of v, which points to a message.
func Of[T any, P interface {
	*T
	fmt.Stringer
}](name string, v P, add func([]byte, *T) []byte, consume func([]byte, *T) (int, error)) Case {
	return Case{
		Name:   name,
		value:  v,
		encode: func() []byte { return add(nil, v) },
		decode: func(b []byte) (fmt.Stringer, int, error) {
			p := P(new(T))
			n, err := consume(b, p)
			return p, n, err
		},
	}
}

// Bytes gives the encoding of the case's value.
func (c Case) Bytes() []byte { return c.encode() }

// Run checks each case against the file of that name in testdata: value to bytes, bytes to value,
// print, and an error for every truncation.
func Run(t *testing.T, file string, cases []Case) {
	t.Helper()
	path := "testdata/" + file
	if *rewrite {
		var s strings.Builder
		for i, c := range cases {
			if i > 0 {
				s.WriteByte('\n')
			}
			s.WriteString(c.text(t))
		}
		require.NoError(t, os.WriteFile(path, []byte(s.String()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	golden := map[string]string{}
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		name, _, _ := strings.Cut(block, "\n")
		golden[name] = block + "\n"
	}
	require.Len(t, golden, len(cases), "cases in %s", path)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			want, ok := golden[c.Name]
			require.True(t, ok, "no such case in %s", path)
			b := parseBytes(t, want)
			assert.Equal(t, hex.EncodeToString(b), hex.EncodeToString(c.encode()), "encoded")
			tail := []byte{0xff, 0xff, 0xff, 0xff}
			v, n, err := c.decode(append(b[:len(b):len(b)], tail...))
			require.NoError(t, err)
			assert.Equal(t, len(b), n, "length")
			assert.Equal(t, c.value, v, "decoded")
			assert.Equal(t, want, c.text(t), "print and fields")
		})
	}
}

// text is the case as it stands in the file. On the way it tries every truncation.
func (c Case) text(t *testing.T) string {
	t.Helper()
	b := c.encode()
	fields := make([]string, len(b)+1)
	for i := range b {
		_, n, err := c.decode(b[:i])
		require.Error(t, err, "%s cut to %d bytes", c.Name, i)
		require.Negative(t, n)
		var e *xdr.Error
		require.True(t, errors.As(err, &e), "%v", err)
		require.LessOrEqual(t, e.Off, i)
		fields[e.Off] = e.Field
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s\n%v\n", c.Name, c.value)
	for off := 0; off < len(b); {
		end := off + 1
		for end < len(b) && fields[end] == "" {
			end++
		}
		fmt.Fprintf(&s, "%4d  %s  %s\n", off, words(b[off:end]), fields[off])
		off = end
	}
	return s.String()
}

// words prints b in groups of four bytes.
func words(b []byte) string {
	var w []string
	for ; len(b) > 4; b = b[4:] {
		w = append(w, hex.EncodeToString(b[:4]))
	}
	return strings.Join(append(w, hex.EncodeToString(b)), " ")
}

// parseBytes reads the bytes back from a case's text.
func parseBytes(t *testing.T, text string) []byte {
	t.Helper()
	var b []byte
	for _, line := range strings.Split(strings.TrimSpace(text), "\n")[2:] {
		part := strings.SplitN(strings.TrimSpace(line), "  ", 3)
		require.Len(t, part, 3, "line %q", line)
		w, err := hex.DecodeString(strings.ReplaceAll(part[1], " ", ""))
		require.NoError(t, err)
		b = append(b, w...)
	}
	return b
}

// WantRecode wants re, the encoding of what the first n bytes of b decode to, to be those bytes. A
// pad byte that was not zero may have become so.
func WantRecode(t testing.TB, b []byte, n int, re []byte) {
	t.Helper()
	require.Len(t, re, n, "encoded again")
	for i := range re {
		if re[i] != b[i] && re[i] != 0 {
			t.Fatalf("byte %d of %x became %x", i, b[:n], re)
		}
	}
}
