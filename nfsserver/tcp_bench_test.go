package nfsserver_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsclient"
)

// BenchmarkTCP has client and server in one process, over loopback.
func BenchmarkTCP(b *testing.B) {
	srv, _ := newTCP(b)
	m := mountTCP(b, srv)
	const file = 64 << 20
	require.NoError(b, m.WriteFile(bg, "f", randomBytes(file), 0o644))
	fh, _, err := m.LookupPath(bg, "f")
	require.NoError(b, err)
	for _, write := range []bool{false, true} {
		for _, size := range []int{4096, 64 << 10, 1 << 20} {
			for _, depth := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("write=%t/size=%d/depth=%d", write, size, depth), func(b *testing.B) {
					b.SetBytes(int64(size))
					b.ReportAllocs()
					runTCP(b, m, fh, write, size, depth, b.N)
				})
			}
		}
	}
}

// runTCP makes n calls, depth at a time.
func runTCP(t testing.TB, m *nfsclient.Mount, fh nfsclient.FH, write bool, size, depth, n int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range depth {
		wg.Go(func() {
			buf := make([]byte, size)
			var rres nfsclient.ReadRes
			var wres nfsclient.WriteRes
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				off := uint64(i) * uint64(size) % (64 << 20)
				var err error
				if write {
					err = m.WriteRes(bg, fh, off, buf, nfsclient.UNSTABLE, &wres)
				} else {
					err = m.ReadRes(bg, fh, off, buf, &rres)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
