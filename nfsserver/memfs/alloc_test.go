package memfs

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

const benchFile = 64 << 20

// dataPath is a file with what its calls need, all of it used again.
type dataPath struct {
	fs  *FS
	id  vfs.ID
	p   vfs.Pages
	a   vfs.Attr
	w   vfs.WCC
	buf []byte
}

func newDataPath(t testing.TB, size int) *dataPath {
	d := &dataPath{fs: New(Options{}), buf: make([]byte, 1<<20)}
	d.id = newFile(t, d.fs, "f")
	for off := 0; off < size; off += len(d.buf) {
		writeFile(t, d.fs, d.id, uint64(off), d.buf, false)
	}
	return d
}

func (d *dataPath) readPages(t testing.TB, off uint64, n int) {
	if _, err := d.fs.ReadPages(t.Context(), d.id, off, n, &d.p, &d.a); err != nil {
		t.Fatal(err)
	}
	d.fs.ReleasePages(&d.p)
}

func (d *dataPath) writePages(t testing.TB, off uint64, n int) {
	if !d.fs.GrabPages(d.id, off, n, &d.p) {
		t.Fatal("range does not suit")
	}
	if err := d.fs.WritePages(t.Context(), d.id, off, &d.p, false, &d.w); err != nil {
		t.Fatal(err)
	}
}

func (d *dataPath) read(t testing.TB, off uint64, n int) {
	if _, _, err := d.fs.Read(t.Context(), d.id, off, d.buf[:n], &d.a); err != nil {
		t.Fatal(err)
	}
}

func (d *dataPath) write(t testing.TB, off uint64, n int) {
	if err := d.fs.Write(t.Context(), d.id, off, d.buf[:n], false, &d.w); err != nil {
		t.Fatal(err)
	}
}

func TestNoAllocations(t *testing.T) {
	d := newDataPath(t, 4<<20)
	for _, n := range []int{4 << 10, 64 << 10, 1 << 20} {
		for name, call := range map[string]func(t testing.TB, off uint64, n int){
			"read pages": d.readPages, "read": d.read, "write": d.write,
		} {
			off := uint64(0)
			require.Zero(t, testing.AllocsPerRun(50, func() {
				call(t, off%(4<<20), n)
				off += uint64(n)
			}), "%s of %d bytes", name, n)
		}
		if n < ChunkSize {
			continue
		}
		off := uint64(0)
		require.Zero(t, testing.AllocsPerRun(50, func() {
			d.writePages(t, off%(4<<20), n)
			off += uint64(n)
		}), "write pages of %d bytes", n)
		// A write to chunks that are lent goes to copies, and the old ones come back.
		require.Zero(t, testing.AllocsPerRun(50, func() {
			_, _ = d.fs.ReadPages(t.Context(), d.id, 0, n, &d.p, &d.a)
			d.write(t, 0, n)
			d.fs.ReleasePages(&d.p)
		}), "write of %d lent bytes", n)
	}
	wantConsistent(t, d.fs, 0)
}

func benchmark(b *testing.B, n int, next func(k int) uint64, call func(t testing.TB, off uint64, n int)) {
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		call(b, next(k), n)
	}
}

func sequential(n int) func(int) uint64 {
	return func(k int) uint64 { return uint64(k*n) % benchFile }
}

// scattered goes through all 4 KiB blocks in an order without a pattern to prefetch.
func scattered(k int) uint64 { return uint64(uint32(k)*2654435761) % benchFile &^ 4095 }

func BenchmarkReadPages4K(b *testing.B) {
	d := newDataPath(b, benchFile)
	benchmark(b, 4<<10, scattered, d.readPages)
}

func BenchmarkReadPages1M(b *testing.B) {
	d := newDataPath(b, benchFile)
	benchmark(b, 1<<20, sequential(1<<20), d.readPages)
}

func BenchmarkWritePages1M(b *testing.B) {
	d := newDataPath(b, benchFile)
	benchmark(b, 1<<20, sequential(1<<20), d.writePages)
}

func BenchmarkRead4K(b *testing.B) {
	d := newDataPath(b, benchFile)
	benchmark(b, 4<<10, scattered, d.read)
}

func BenchmarkRead1M(b *testing.B) {
	d := newDataPath(b, benchFile)
	benchmark(b, 1<<20, sequential(1<<20), d.read)
}

func BenchmarkWrite1M(b *testing.B) {
	d := newDataPath(b, benchFile)
	benchmark(b, 1<<20, sequential(1<<20), d.write)
}

// BenchmarkReadPages4KParallel has all threads read one file.
func BenchmarkReadPages4KParallel(b *testing.B) {
	d := newDataPath(b, benchFile)
	ctx := b.Context()
	b.ReportAllocs()
	var threads atomic.Int32
	b.RunParallel(func(pb *testing.PB) {
		var own struct {
			_ [64]byte
			p vfs.Pages
			a vfs.Attr
			_ [64]byte
		}
		for k := int(threads.Add(1)) * 1000; pb.Next(); k++ {
			_, _ = d.fs.ReadPages(ctx, d.id, scattered(k), 4<<10, &own.p, &own.a)
			d.fs.ReleasePages(&own.p)
		}
	})
}
