package nfsclient_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
)

// Once warm, READ, WRITE and GETATTR allocate nothing, client and server together.
func TestHotPathDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not the code's own under the race detector")
	}
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) {
			e := newEnv(t, mode(m))
			n := min(65536, e.m.RSize(), e.m.WSize())
			require.NoError(t, e.m.WriteFile(bg, "f", pattern(n, 1), 0o644))
			fh, _, err := e.m.LookupPath(bg, "f")
			require.NoError(t, err)
			buf := make([]byte, n)
			for op, f := range map[string]func() error{
				"READ":      func() error { _, _, err := e.m.Read(bg, fh, 0, buf); return err },
				"READ 4K":   func() error { _, _, err := e.m.Read(bg, fh, 0, buf[:min(n, 4096)]); return err },
				"WRITE":     func() error { _, err := e.m.Write(bg, fh, 0, buf, nfsclient.UNSTABLE); return err },
				"WRITE 100": func() error { _, err := e.m.Write(bg, fh, 0, buf[:100], nfsclient.UNSTABLE); return err },
				"GETATTR":   func() error { _, err := e.m.GetAttr(bg, fh); return err },
				"NULL":      func() error { return e.m.Null(bg) },
			} {
				for range 2000 { // more than a queue is deep
					require.NoError(t, f())
				}
				var failed error
				allocs := testing.AllocsPerRun(200, func() {
					if err := f(); err != nil {
						failed = err
					}
				})
				require.NoError(t, failed)
				verb := 0.0
				if m == nfsclient.Register {
					verb = 2 // what the verb returns, and what is behind it
				}
				assert.LessOrEqual(t, allocs, verb, op)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, m := range modes {
		for _, c := range []struct{ size, depth int }{{4096, 1}, {4096, 8}, {4096, 64}, {65536, 8}, {1 << 20, 8}} {
			b.Run(fmt.Sprintf("%v/%d/depth=%d", m, c.size, c.depth), func(b *testing.B) {
				e := newEnv(b, mode(m), live)
				require.NoError(b, e.m.WriteFile(bg, "f", pattern(16<<20, 1), 0o644))
				fh, _, err := e.m.LookupPath(bg, "f")
				require.NoError(b, err)
				c.size = min(c.size, e.m.RSize())
				b.SetBytes(int64(c.size))
				b.ReportAllocs()
				b.ResetTimer()
				run(b, e.s, c.depth, func(i int, buf []byte) error {
					_, _, err := e.m.Read(bg, fh, uint64(i*c.size)%(16<<20), buf)
					return err
				}, c.size)
			})
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct{ size, depth int }{{4096, 1}, {4096, 64}, {1 << 20, 8}} {
		b.Run(fmt.Sprintf("%d/depth=%d", c.size, c.depth), func(b *testing.B) {
			e := newEnv(b, live)
			require.NoError(b, e.m.WriteFile(bg, "f", pattern(16<<20, 1), 0o644))
			fh, _, err := e.m.LookupPath(bg, "f")
			require.NoError(b, err)
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			b.ResetTimer()
			run(b, e.s, c.depth, func(i int, buf []byte) error {
				_, err := e.m.Write(bg, fh, uint64(i*c.size)%(16<<20), buf, nfsclient.UNSTABLE)
				return err
			}, c.size)
		})
	}
}

// run makes b.N calls, depth at a time.
func run(b *testing.B, s *sched.Sched, depth int, f func(i int, buf []byte) error, size int) {
	g := s.NewGroup("callers")
	for d := range depth {
		g.Go(fmt.Sprint("caller ", d), func() {
			buf := make([]byte, size)
			for i := d; i < b.N; i += depth {
				if err := f(i, buf); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	if err := g.Wait(bg); err != nil {
		b.Fatal(err)
	}
}
