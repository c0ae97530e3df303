package fabric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
)

// diskArray is so many disks of 100 MB/s with a seek of 1 to 10 ms.
func diskArray(spindles int, c fabric.PageCache) fabric.Storage {
	return fabric.Memory().WithDisk(fabric.Disk{
		Spindles: spindles, SeekTrack: time.Millisecond, SeekFull: 10 * time.Millisecond, PerByte: 10_000, Elevator: fabric.Deadline,
	}, c)
}

// Stable WRITEs go at the speed of the disks.
func TestDisksBoundStableWrites(t *testing.T) {
	rate := func(spindles int) float64 {
		f := fabric.New(t, fabric.Params{Storage: diskArray(spindles, fabric.PageCache{}), Threads: 32, Link: &fabric.RoCE100G})
		r := f.Run(t, fabric.Load{Op: fabric.Write, Size: 64 << 10, Depth: 32, Calls: 512, Stable: true, Verify: true})
		st := f.StorageParts().Disk.Stats()
		assert.EqualValues(t, 512*64<<10, st.Bytes)
		return r.Throughput()
	}
	one, four := rate(1), rate(4)
	assert.InDelta(t, 100*fabric.MBps, one, 8*fabric.MBps)
	assert.InDelta(t, 4, four/one, 0.4)
}

// Unstable WRITEs go to the cache, until too much of it is dirty.
func TestDirtyLimitBoundsUnstableWrites(t *testing.T) {
	rate := func(c fabric.PageCache) float64 {
		f := fabric.New(t, fabric.Params{Storage: diskArray(1, c), Link: &fabric.RoCE100G})
		return f.Run(t, fabric.Load{Op: fabric.Write, Size: 64 << 10, Depth: 16, Calls: 512}).Throughput()
	}
	assert.Greater(t, rate(fabric.PageCache{}), 5000*fabric.MBps)
	assert.InDelta(t, 80*fabric.MBps, rate(fabric.PageCache{Dirty: 1 << 20}), 20*fabric.MBps, "100 less some seeks")
}

// READ waits for what the cache does not have, once.
func TestReadsComeFromTheDisk(t *testing.T) {
	f := fabric.New(t, fabric.Params{Storage: diskArray(1, fabric.PageCache{}), Link: &fabric.RoCE100G})
	l := fabric.Load{Op: fabric.Read, Size: 64 << 10, Depth: 8, FileSize: 16 << 20, Verify: true}
	cold := f.Run(t, l)
	cold.WantThroughput(t, fabric.Between(80*fabric.MBps, 101*fabric.MBps))
	f.Run(t, l).WantThroughput(t, fabric.AtLeast(5000*fabric.MBps))
	busy := false
	for _, u := range f.Sched().Usage() {
		busy = busy || u.Name == "spindle 0 of disk" && u.Busy.Std() > cold.Elapsed*9/10
	}
	assert.True(t, busy, "the meter of the spindle")
}

// The models give one trace for one seed, crash included.
func TestModelsAreRepeatable(t *testing.T) {
	run := func(seed uint64) uint64 {
		f := fabric.New(t, fabric.Params{Seed: seed, Link: &fabric.RoCE100G,
			Storage: fabric.Memory().WithInodeLock(25*time.Microsecond, 0).WithJournal(fabric.Journal{Force: time.Millisecond, Spread: 0.3}).
				WithDisk(fabric.Disk{Spindles: 3, Random: true, RPM: 7200, Elevator: fabric.CFQ}, fabric.PageCache{Dirty: 2 << 20, Tasks: 2}).
				WithCommit(fabric.Commit{Policy: fabric.CommitLockSync}).Crashable()})
		f.Run(t, fabric.Load{Op: fabric.Mix, ReadPercent: 50, Size: 32 << 10, Depth: 8, Files: 4, FileSize: 1 << 20, Random: true, Calls: 300})
		require.NoError(t, f.CrashServer(bg, time.Millisecond))
		f.Run(t, fabric.Load{Op: fabric.Write, Size: 32 << 10, Depth: 4, Files: 2, Calls: 50, Name: "more"})
		return f.Fingerprint()
	}
	assert.Equal(t, run(5), run(5))
	assert.NotEqual(t, run(5), run(6))
}
