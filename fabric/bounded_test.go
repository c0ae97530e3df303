package fabric_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
)

// TestNothingIsLeftBehind makes and closes a hundred fabrics.
func TestNothingIsLeftBehind(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		once := func() {
			f, err := fabric.Start(p)
			require.NoError(t, err)
			m, err := f.Dial(bg, "/")
			require.NoError(t, err)
			want := data(50_000, 1)
			require.NoError(t, m.NFS().WriteFile(bg, "a", want, 0o644))
			got, err := m.NFS().ReadFile(bg, "a")
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.NoError(t, f.Close())
		}
		for range 3 {
			once()
		}
		goroutines, heap := runtime.NumGoroutine(), heapInUse()
		for range 100 {
			once()
		}
		// Goroutines that have said that they end may still be about to.
		for range 1000 {
			if runtime.NumGoroutine() <= goroutines {
				break
			}
			runtime.Gosched()
		}
		assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
		assert.Less(t, heapInUse(), heap+1<<20, "bytes of heap, a hundred fabrics later")
	})
}

func heapInUse() uint64 {
	var s runtime.MemStats
	for range 3 { // finalizers and pools
		runtime.GC()
	}
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// TestNoAllocationPerCall: once warm, READ and WRITE allocate nothing on either side.
func TestNoAllocationPerCall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	eachMode(t, func(t *testing.T, p fabric.Params) {
		for _, link := range []*fabric.Link{nil, &fabric.RoCE100G} {
			calls, most := 10_000, perCall(p)
			if link != nil && p.Live { // real time passes, and timers start goroutines now and then
				calls, most = 500, 1+perCall(p)
			}
			p.Link = link
			f := fabric.New(t, p)
			m := f.Mount(t, "/")
			size := min(m.Negotiated().RSize, m.Negotiated().WSize, 8192)
			m.WriteFile(t, "a", data(64*size, 1))
			fh, _, err := m.NFS().LookupPath(bg, "a")
			require.NoError(t, err)
			buf, out := make([]byte, size), data(size, 2)
			read := func(i int) {
				n, _, err := m.NFS().Read(bg, fh, uint64(i%64*size), buf)
				if err != nil || n != size {
					require.NoError(t, err)
					require.Equal(t, size, n)
				}
			}
			write := func(i int) {
				if _, err := m.NFS().Write(bg, fh, uint64(i%64*size), out, nfsclient.UNSTABLE); err != nil {
					require.NoError(t, err)
				}
			}
			for name, call := range map[string]func(int){"read": read, "write": write} {
				for i := range calls/10 + 300 {
					call(i)
				}
				per := allocations(func() {
					for i := range calls {
						call(i)
					}
				}) / float64(calls)
				assert.Less(t, per, most, "%s of %d bytes, link %v", name, size, link != nil)
			}
		}
	})
}

// TestNoAllocationUnderLoad: the same with many calls in flight, as a load makes them.
func TestNoAllocationUnderLoad(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	eachMode(t, func(t *testing.T, p fabric.Params) {
		f := fabric.New(t, p)
		for _, op := range []fabric.Op{fabric.Read, fabric.Write, fabric.Mix} {
			l := fabric.Load{Op: op, ReadPercent: 50, Size: 2048, FileSize: 1 << 20, Depth: 32, Random: true, Calls: 1000}
			f.Run(t, l)
			few := allocations(func() { f.Run(t, l) })
			l.Calls = 6000
			many := allocations(func() { f.Run(t, l) })
			assert.Less(t, (many-few)/5000, perCall(p), "allocations of one more call, %v", op)
		}
	})
}

// perCall is what may be allocated: live, the runtime and the growth of pools have their share.
func perCall(p fabric.Params) float64 {
	n := 0.05
	if p.Live {
		n = 0.3
	}
	if p.RegMode == nfsclient.Register {
		n += 2 // what the verb returns, and what is behind it
	}
	return n
}

// allocations counts those of f, in all goroutines.
func allocations(f func()) float64 {
	var a, b runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return float64(b.Mallocs - a.Mallocs)
}
