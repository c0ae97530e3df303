package fabric_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// access is a READ or WRITE as the file system saw it.
type access struct {
	ino    uint64
	off    uint64
	n      int
	write  bool
	stable bool
}

// recordFS notes what reaches a file system. It lends no pages.
type recordFS struct {
	vfs.FS
	mu      sync.Mutex
	list    []access
	commits int
}

func newRecordFS() *recordFS {
	return &recordFS{FS: memfs.New(memfs.Options{RootMode: 0o777, Capacity: 1 << 30})}
}

func (r *recordFS) note(a access) {
	r.mu.Lock()
	r.list = append(r.list, a)
	r.mu.Unlock()
}

// take gives what was noted, and forgets it.
func (r *recordFS) take() []access {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.list
	r.list, r.commits = nil, 0
	return l
}

func (r *recordFS) Read(ctx context.Context, id vfs.ID, off uint64, dst []byte, a *vfs.Attr) (int, bool, error) {
	r.note(access{id.Ino, off, len(dst), false, false})
	return r.FS.Read(ctx, id, off, dst, a)
}

func (r *recordFS) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
	r.note(access{id.Ino, off, len(src), true, stable})
	return r.FS.Write(ctx, id, off, src, stable, w)
}

func (r *recordFS) Commit(ctx context.Context, id vfs.ID, off, n uint64, w *vfs.WCC) error {
	r.mu.Lock()
	r.commits++
	r.mu.Unlock()
	return r.FS.Commit(ctx, id, off, n, w)
}

// recorded runs a load on a fabric of its own, and gives what reached the file system.
func recorded(t *testing.T, l fabric.Load) (*fabric.Result, []access, int) {
	t.Helper()
	rec := newRecordFS()
	f := fabric.New(t, fabric.Params{Storage: fabric.FileSystem("record", rec), Link: &fabric.RoCE25G})
	if l.Op == fabric.Read || l.Op == fabric.Mix { // fill the files first
		fill := l
		fill.Calls, fill.Bytes, fill.Time, fill.Warm, fill.Verify = 1, 0, 0, 0, false
		f.Run(t, fill)
	}
	rec.take()
	r := f.Run(t, l)
	commits := rec.commits
	return r, rec.take(), commits
}

func TestLoadSequential(t *testing.T) {
	for _, op := range []fabric.Op{fabric.Write, fabric.Read} {
		r, list, commits := recorded(t, fabric.Load{Op: op, Files: 3, FileSize: 45_000, Size: 10_000, Bytes: 240_000})
		assert.EqualValues(t, 24, r.Calls)
		assert.EqualValues(t, 240_000, r.Bytes)
		require.Len(t, list, 24)
		inos := []uint64{list[0].ino, list[4].ino, list[8].ino}
		for i, a := range list {
			assert.Equal(t, access{inos[i/4%3], uint64(i%4) * 10_000, 10_000, op == fabric.Write, false}, a, "call %d", i)
		}
		assert.Equal(t, map[fabric.Op]int{fabric.Write: 3, fabric.Read: 0}[op], commits, "a COMMIT a file")
	}
}

func TestLoadRandom(t *testing.T) {
	l := fabric.Load{Op: fabric.Read, Random: true, Files: 2, FileSize: 1 << 20, Sizes: []int{1000, 5000, 8000}, Calls: 600, Depth: 4}
	r, list, _ := recorded(t, l)
	assert.EqualValues(t, 600, r.Calls)
	var bytes int64
	sizes, blocks, inos := map[int]int{}, map[access]bool{}, map[uint64]int{}
	for _, a := range list {
		sizes[a.n]++
		inos[a.ino]++
		bytes += int64(a.n)
		assert.Zero(t, a.off%8000)
		blocks[access{ino: a.ino, off: a.off}] = true
	}
	assert.Equal(t, bytes, r.Bytes)
	assert.Len(t, inos, 2)
	for _, n := range l.Sizes {
		assert.InDelta(t, 200, sizes[n], 60)
	}
	assert.Len(t, sizes, 3)
	assert.Greater(t, len(blocks), 150, "of 262 blocks")
	_, again, _ := recorded(t, l)
	assert.Equal(t, list, again, "the same seed")
}

func TestLoadMix(t *testing.T) {
	for _, percent := range []int{0, 30, 100} {
		_, list, _ := recorded(t, fabric.Load{Op: fabric.Mix, ReadPercent: percent, Size: 4096, FileSize: 1 << 20, Calls: 1000, Depth: 8, Random: true})
		reads := 0
		for _, a := range list {
			if !a.write {
				reads++
			}
		}
		require.Len(t, list, 1000)
		delta := 0.0
		if percent%100 != 0 {
			delta = 60
		}
		assert.InDelta(t, percent*10, reads, delta)
	}
}

func TestLoadStable(t *testing.T) {
	r, list, commits := recorded(t, fabric.Load{Op: fabric.Write, Stable: true, FileSize: 1 << 20})
	assert.Zero(t, commits)
	r.Server.Want(t, "nfs3_COMMIT=0 nfs3_WRITE=16")
	for _, a := range list {
		assert.True(t, a.stable)
	}
	_, list, commits = recorded(t, fabric.Load{Op: fabric.Write, FileSize: 1 << 20})
	assert.Equal(t, 1, commits)
	for _, a := range list {
		assert.False(t, a.stable)
	}
}

func TestLoadEnds(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		p.Link = &fabric.RoCE25G
		f := fabric.New(t, p)
		base := fabric.Load{Op: fabric.Write, Size: 8192, FileSize: 1 << 20, Depth: 4}

		l := base
		l.Calls, l.Warm = 100, 10
		r := f.Run(t, l)
		assert.EqualValues(t, 100, r.Calls)
		assert.EqualValues(t, 819200, r.Bytes)
		assert.EqualValues(t, 100, r.Latency.Count())
		r.Server.Want(t, "nfs3_WRITE=110 nfs3_COMMIT=1")

		l = base
		l.Bytes, l.Warm = 100_000, 7
		r = f.Run(t, l)
		assert.EqualValues(t, 13, r.Calls)
		assert.EqualValues(t, 13*8192, r.Bytes)
		r.Server.Want(t, "nfs3_WRITE=20")

		l = base
		l.Time, l.Warm = 3*time.Millisecond, 50
		for range 2 {
			r = f.Run(t, l)
			assert.GreaterOrEqual(t, r.Elapsed, l.Time-r.Latency.Max())
			if !p.Live {
				assert.LessOrEqual(t, r.Elapsed, l.Time+r.Latency.Max())
				assert.Greater(t, r.Calls, int64(500))
			}
			assert.Equal(t, r.Calls*8192, r.Bytes)
			assert.Equal(t, r.Calls, r.Latency.Count())
			l.Random, l.Verify, l.Warm = true, true, 0
		}

		r = f.Run(t, fabric.Load{Op: fabric.Write, FileSize: 1 << 20, Files: 2})
		assert.EqualValues(t, 32, r.Calls, "all files once, 64 KiB a call")
		r = f.Run(t, fabric.Load{Op: fabric.Read, FileSize: 4096, Name: "small"})
		assert.EqualValues(t, 1, r.Calls, "a call is no larger than the file")
		for _, op := range []fabric.Op{fabric.GetAttr, fabric.Null} {
			r = f.Run(t, fabric.Load{Op: op, Depth: 16})
			assert.EqualValues(t, 10_000, r.Calls)
			assert.Zero(t, r.Bytes)
			r.Client.Want(t, "sends=10000")
		}
	})
}

// TestLoadDepth: by Little's law the calls in flight are rate times latency.
func TestLoadDepth(t *testing.T) {
	for _, depth := range []int{1, 3, 16, 100} {
		f := fabric.New(t, fabric.Params{Link: &fabric.RoCE25G})
		r := f.Run(t, fabric.Load{Op: fabric.Read, Size: 4096, FileSize: 4 << 20, Depth: depth, Calls: 4000, Warm: 200})
		assert.InEpsilon(t, depth, r.OpsPerSecond()*r.Latency.Mean().Seconds(), 0.05)
	}
}

func TestLoadResult(t *testing.T) {
	f := fabric.New(t, fabric.Params{Link: &fabric.RoCE25G})
	r := f.Run(t, fabric.Load{Op: fabric.Mix, ReadPercent: 50, FileSize: 4 << 20, Depth: 8, Random: true, Calls: 500})
	assert.InEpsilon(t, float64(r.Bytes)/r.Elapsed.Seconds(), r.Throughput(), 1e-3)
	assert.InEpsilon(t, float64(r.Calls)/r.Elapsed.Seconds(), r.OpsPerSecond(), 1e-3)
	assert.EqualValues(t, r.Calls, r.Latency.Count())
	last := time.Duration(0)
	for q := 0.0; q <= 1; q += 0.05 {
		v := r.Latency.Quantile(q)
		assert.GreaterOrEqual(t, v, last)
		last = v
	}
	assert.GreaterOrEqual(t, r.Latency.Max(), r.Latency.Quantile(1))
	assert.Greater(t, r.Latency.Mean(), r.Latency.Quantile(0))
	assert.Less(t, r.Latency.Mean(), r.Latency.Max())
	reads, _ := r.Server.Get("nfs3_READ")
	writes, _ := r.Server.Get("nfs3_WRITE")
	assert.EqualValues(t, 500, reads+writes)
	r.Client.Want(t, "sends=501 recvs=501 bad_reply_count=0 failed_marshal_count=0")
	assert.True(t, strings.HasPrefix(r.String(), "mix 65536 B, depth 8: 500 calls, 32768000 bytes in "), r.String())

	var none fabric.Result
	assert.Zero(t, none.Throughput())
	assert.Zero(t, none.OpsPerSecond())
	assert.Zero(t, none.Latency.Max()+none.Latency.Mean()+none.Latency.Quantile(0.5))
	assert.Zero(t, none.Latency.Count())
}

func TestLoadWhere(t *testing.T) {
	f := fabric.New(t, fabric.Params{Link: &fabric.RoCE25G})
	first, second := f.Mount(t, "/"), f.Mount(t, "/")
	second.Mkdir(t, "deep/er")
	f.Run(t, fabric.Load{Op: fabric.Write, FileSize: 100, Files: 3, Mount: second, Dir: "deep/er", Name: "x"})
	f.Run(t, fabric.Load{Op: fabric.Write, FileSize: 200})
	assert.Len(t, first.ReadFile(t, "deep/er/x2"), 100)
	assert.Len(t, first.ReadFile(t, "load0"), 200)
	wrote := func(m *fabric.Mount) uint64 {
		v, ok := fabric.Counters(m.NFS().Counters()).Get("serverwritebytes")
		require.True(t, ok)
		return v
	}
	assert.EqualValues(t, 200, wrote(first))
	assert.EqualValues(t, 300, wrote(second))
	_, err := f.RunLoad(bg, fabric.Load{Dir: "nowhere"})
	assert.ErrorIs(t, err, vfs.ErrNoEnt)
	assert.ErrorContains(t, err, "nowhere")
	_, err = f.RunLoad(bg, fabric.Load{Dir: "load0"})
	assert.ErrorIs(t, err, vfs.ErrNotDir)
}

func TestLoadOutOfBounds(t *testing.T) {
	f := fabric.New(t, fabric.Params{RSize: 65536, WSize: 32768})
	for want, l := range map[string]fabric.Load{
		"Load.Op is Op(9), must be Write, Read, Mix, GetAttr or Null":                          {Op: 9},
		"Load.Size is 32769, must be 1 to 32768, the mount's limit (rsize 65536, wsize 32768)": {Size: 32769},
		"Load.Size is 65537, must be 1 to 65536, the mount's limit (rsize 65536, wsize 32768)": {Op: fabric.Read, Size: 65537},
		"Load.Size is 40000, must be 1 to 32768, the mount's limit (rsize 65536, wsize 32768)": {Op: fabric.Mix, Size: 40000},
		"Load.Size is -1, must be 1 to 32768, the mount's limit (rsize 65536, wsize 32768)":    {Size: -1},
		"Load.Sizes is 0, must be 1 to 32768, the mount's limit (rsize 65536, wsize 32768)":    {Sizes: []int{1, 0}},
		"Load.FileSize is 1000, must be at least the size of a call, 1001":                     {FileSize: 1000, Size: 1001},
		"Load.FileSize is -5, must be 1 to 1099511627776":                                      {FileSize: -5},
		"Load.Depth is 65537, must be 1 to 65536":                                              {Depth: 65537},
		"Load.Depth is -1, must be 1 to 65536":                                                 {Depth: -1},
		"Load.Files is 1048577, must be 1 to 1048576":                                          {Files: 1<<20 + 1},
		"Load.ReadPercent is 101, must be 0 to 100":                                            {ReadPercent: 101},
		"Load.Bytes is -1, must be 0 to 2305843009213693951":                                   {Bytes: -1},
		"Load.Calls is 9223372036854775807, must be 0 to 2305843009213693951":                  {Calls: math.MaxInt64},
		"Load.Warm is -7, must be 0 to 2305843009213693951":                                    {Warm: -7},
		"Load.Time in ns is -1000000000, must be 0 to 9223372036854775807":                     {Time: -time.Second},
	} {
		_, err := f.RunLoad(bg, l)
		var limit *fabric.LimitError
		assert.ErrorAs(t, err, &limit)
		assert.EqualError(t, err, "fabric: "+want)
	}
}

// TestLoadCutOff: when the context ends, no call goes on behind the caller's back.
func TestLoadCutOff(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		p.Link = &fabric.GbE1
		f := fabric.New(t, p)
		ctx, cancel := f.WithTimeout(bg, 5*time.Millisecond)
		defer cancel()
		_, err := f.RunLoad(ctx, fabric.Load{Op: fabric.Read, Depth: 8, FileSize: 1 << 20, Bytes: 1 << 40})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		sends, _ := f.Client().Counters().Get("sends")
		assert.NoError(t, f.Sleep(bg, 20*time.Millisecond))
		after, _ := f.Client().Counters().Get("sends")
		assert.Equal(t, sends, after)
		r := f.Run(t, fabric.Load{Op: fabric.Write, FileSize: 1 << 20, Verify: true})
		assert.EqualValues(t, 16, r.Calls, "the mount goes on working")
	})
}

// TestLoadsAtOnce: verified loads on the same files do not disturb each other.
func TestLoadsAtOnce(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		p.Link = &fabric.RoCE100G
		f := fabric.New(t, p)
		f.Mount(t, "/")
		var waits []func(context.Context) error
		for i, op := range []fabric.Op{fabric.Write, fabric.Read, fabric.Mix, fabric.Mix} {
			waits = append(waits, f.Go(op.String(), func() {
				_, err := f.RunLoad(bg, fabric.Load{
					Op: op, ReadPercent: 50, FileSize: 1 << 20, Sizes: []int{1000, 64 << 10, 30_000 + i},
					Depth: 4, Calls: 300, Random: i%2 == 0, Verify: true,
				})
				assert.NoError(t, err)
			}))
		}
		waitAll(t, waits)
	})
}

func TestLoadOnClosedFabric(t *testing.T) {
	f, err := fabric.Start(fabric.Params{})
	require.NoError(t, err)
	m, err := f.Dial(bg, "/")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = f.RunLoad(bg, fabric.Load{Mount: m, Op: fabric.Null})
	assert.Error(t, err)
	_, err = f.Dial(bg, "/")
	assert.True(t, errors.Is(err, fabric.ErrClosed), "%v", err)
	assert.ErrorIs(t, m.NFS().Null(bg), nfsclient.ErrClosed)
}
