package nfsclient_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsclient"
)

func TestWriteAndReadInEachMode(t *testing.T) {
	for _, m := range modes {
		for _, l := range []bool{false, true} {
			name := m.String()
			if l {
				name += " live"
			}
			t.Run(name, func(t *testing.T) {
				e := newEnv(t, mode(m), func(c *envConfig) { c.live = l })
				for _, n := range []int{0, 1, 3, 4095, 4096, 5001, 65536, 1<<20 + 17} {
					want := pattern(n, byte(n))
					require.NoError(t, e.m.WriteFile(bg, "f", want, 0o644))
					got, err := e.m.ReadFile(bg, "f")
					require.NoError(t, err)
					require.True(t, bytes.Equal(want, got), "%d bytes", n)
				}
				assert.Zero(t, e.counter("bad_reply_count"))
				assert.Equal(t, 1, e.counter("connect_count"))
				if m == nfsclient.Bounce {
					assert.Zero(t, e.counter("read_chunk_count")+e.counter("write_chunk_count"))
				} else {
					assert.Positive(t, e.counter("read_chunk_count"))
				}
			})
		}
	}
}
