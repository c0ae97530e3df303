package linuxserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
)

// Every procedure of NFSv3, and what the server's machine sees of it.
func TestProcedures(t *testing.T) {
	r := newRig(t)
	m := r.dial(nfsclient.Config{})
	t.Log(m.Negotiated())
	root := m.Root()
	local := func(name string) string { return filepath.Join(export, name) }

	require.NoError(t, m.Null(bg))
	a, err := m.GetAttr(bg, root)
	require.NoError(t, err)
	assert.Equal(t, nfsclient.FType(nfsclient.NF3DIR), a.Type)

	d, err := m.Mkdir(bg, root, "d", &nfsclient.Sattr{SetMode: true, Mode: 0o755})
	require.NoError(t, err)
	require.True(t, d.HasFH)
	f, err := m.Create(bg, d.FH, "f", nfsclient.CreateHow{Mode: nfsclient.GUARDED, Attr: nfsclient.Sattr{SetMode: true, Mode: 0o640}})
	require.NoError(t, err)
	_, err = m.Create(bg, d.FH, "f", nfsclient.CreateHow{Mode: nfsclient.GUARDED})
	require.ErrorIs(t, err, fs.ErrExist)
	x := nfsclient.CreateHow{Mode: nfsclient.EXCLUSIVE, Verf: nfsclient.Verf{1, 2, 3, 4, 5, 6, 7, 8}}
	first, err := m.Create(bg, d.FH, "x", x)
	require.NoError(t, err)
	again, err := m.Create(bg, d.FH, "x", x)
	require.NoError(t, err, "a retransmission")
	assert.Equal(t, first.FH, again.FH)

	want := data(100_000, 1)
	w, err := m.Write(bg, f.FH, 0, want, nfsclient.UNSTABLE)
	require.NoError(t, err)
	assert.Equal(t, len(want), w.Count)
	verf, err := m.Commit(bg, f.FH, 0, 0)
	require.NoError(t, err)
	assert.Equal(t, w.Verf, verf)
	sameFile(t, "d/f", want)
	got := make([]byte, len(want))
	n, eof, err := m.Read(bg, f.FH, 0, got)
	require.NoError(t, err)
	assert.True(t, eof)
	assert.True(t, bytes.Equal(want, got[:n]))

	_, err = m.SetAttr(bg, f.FH, &nfsclient.Sattr{SetSize: true, Size: 10, SetMode: true, Mode: 0o600}, nil)
	require.NoError(t, err)
	st, err := os.Stat(local("d/f"))
	require.NoError(t, err)
	assert.EqualValues(t, 10, st.Size())
	assert.Equal(t, fs.FileMode(0o600), st.Mode())
	a, err = m.GetAttr(bg, f.FH)
	require.NoError(t, err)
	stale := a.Ctime
	stale.Sec++ // the kernel compares seconds
	_, err = m.SetAttr(bg, f.FH, &nfsclient.Sattr{SetMode: true, Mode: 0o644}, &stale)
	assert.ErrorContains(t, err, "NFS3ERR_NOT_SYNC")

	l, err := m.Lookup(bg, d.FH, "f")
	require.NoError(t, err)
	assert.Equal(t, f.FH, l.FH)
	_, err = m.Lookup(bg, d.FH, "none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	can, err := m.Access(bg, f.FH, nfsclient.ACCESS3_READ|nfsclient.ACCESS3_MODIFY)
	require.NoError(t, err)
	assert.EqualValues(t, nfsclient.ACCESS3_READ|nfsclient.ACCESS3_MODIFY, can)

	for _, n := range []int{1, 900, 4000} { // inline, and in chunks
		target := strings.Repeat("t", n)
		s, err := m.Symlink(bg, d.FH, fmt.Sprint("s", n), target, nil)
		require.NoError(t, err)
		back, err := m.ReadLink(bg, s.FH)
		require.NoError(t, err)
		assert.Equal(t, target, back)
		seen, err := os.Readlink(local(fmt.Sprint("d/s", n)))
		require.NoError(t, err)
		assert.Equal(t, target, seen)
	}
	_, err = m.Mknod(bg, d.FH, "fifo", nfsclient.NF3FIFO, &nfsclient.Sattr{SetMode: true, Mode: 0o600}, nfsclient.Spec{})
	require.NoError(t, err)
	st, err = os.Stat(local("d/fifo"))
	require.NoError(t, err)
	assert.Equal(t, fs.ModeNamedPipe, st.Mode().Type())

	_, err = m.Link(bg, f.FH, d.FH, "hard")
	require.NoError(t, err)
	require.NoError(t, m.Rename(bg, d.FH, "hard", root, "moved"))
	assert.FileExists(t, local("moved"))
	_, err = m.Remove(bg, root, "moved")
	require.NoError(t, err)
	assert.NoFileExists(t, local("moved"))
	_, err = m.Rmdir(bg, root, "d")
	assert.ErrorContains(t, err, "NFS3ERR_NOTEMPTY")

	res, err := m.ReadDir(bg, d.FH, 0, nfsclient.Verf{}, 8192)
	require.NoError(t, err)
	var names []string
	for l, e := res.Entries, (nfsclient.Entry{}); l.Next(&e); {
		names = append(names, string(e.Name))
	}
	assert.ElementsMatch(t, []string{".", "..", "f", "x", "s1", "s900", "s4000", "fifo"}, names)
	plus, err := m.ReadDirPlus(bg, d.FH, 0, nfsclient.Verf{}, 8192, 8192)
	require.NoError(t, err)
	names = names[:0]
	for l, e := plus.Entries, (nfsclient.EntryPlus{}); l.Next(&e); {
		names = append(names, string(e.Name))
	}
	assert.ElementsMatch(t, []string{".", "..", "f", "x", "s1", "s900", "s4000", "fifo"}, names)

	fsstat, err := m.FSStat(bg, root)
	require.NoError(t, err)
	assert.EqualValues(t, 400<<20, fsstat.TotalBytes)
	info, err := m.FSInfo(bg, root)
	require.NoError(t, err)
	assert.EqualValues(t, 1<<20, info.RtMax)
	pc, err := m.PathConf(bg, root)
	require.NoError(t, err)
	assert.EqualValues(t, 255, pc.NameMax)

	require.NoError(t, m.RemoveAll(bg, "d"))
	assert.NoDirExists(t, local("d"))
	_, err = m.GetAttr(bg, f.FH)
	assert.ErrorContains(t, err, "NFS3ERR_STALE")
	wantClean(t, m)
}

// READ and WRITE of many sizes, at transfer sizes from 4 KiB to 1 MiB, in each registration mode.
func TestTransferSizes(t *testing.T) {
	r := newRig(t)
	for _, mode := range nfsclient.RegModes()[1:] {
		for _, size := range []int{4 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20} {
			t.Run(fmt.Sprintf("%v/%d", mode, size), func(t *testing.T) {
				cfg := nfsclient.Config{RegMode: mode, RSize: size, WSize: size}
				probe := cfg
				probe.Device, probe.Addr, probe.MountAddr, probe.Export = r.dev, r.addr+":20049", r.addr+":20048", export
				m, err := nfsclient.New(bg, probe)
				if errors.Is(err, verbs.ErrUnsupported) {
					t.Skip(err)
				}
				require.NoError(t, err)
				defer func() { assert.NoError(t, m.Close()) }()
				reads, writes := counter(t, "rdma_stat_read"), counter(t, "rdma_stat_write")
				for i, n := range []int{1, 3, 1000, 5000, size - 1, size, size + 1, 2*size + 4097} {
					name, want := fmt.Sprint("f", i), data(n, uint32(n))
					require.NoError(t, m.WriteFile(bg, name, want, 0o644))
					sameFile(t, name, want)
					got, err := m.ReadFile(bg, name)
					require.NoError(t, err)
					require.True(t, bytes.Equal(want, got), "%d bytes", n)
				}
				wantClean(t, m)
				if mode != nfsclient.Bounce {
					assert.Greater(t, counter(t, "rdma_stat_read"), reads, "WRITEs in Read chunks")
					assert.Greater(t, counter(t, "rdma_stat_write"), writes, "READs in Write chunks")
				}
			})
		}
	}
}

// 64 MiB written unstable by several at once, committed, and compared on both sides.
func TestLargeFile(t *testing.T) {
	r := newRig(t)
	m := r.dial(nfsclient.Config{})
	want := data(64<<20, 5)
	f, err := m.OpenFile(bg, "big", os.O_CREATE|os.O_RDWR, 0o644)
	require.NoError(t, err)
	var wg sync.WaitGroup
	const parts = 4
	for i := range parts {
		wg.Go(func() {
			n := len(want) / parts
			_, err := f.WriteAt(want[i*n:(i+1)*n], int64(i*n))
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	require.NoError(t, f.Sync())
	sameFile(t, "big", want)
	require.NoError(t, f.Close())
	got, err := m.ReadFile(bg, "big")
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
	wantClean(t, m)
}

// A directory of 5,000 long names, whose results come in Reply chunks.
func TestLargeDirectory(t *testing.T) {
	r := newRig(t)
	var trace lines
	m := r.dial(nfsclient.Config{Trace: trace.add})
	dir := filepath.Join(export, "many")
	require.NoError(t, os.Mkdir(dir, 0o777))
	const n = 5000
	want := map[string]bool{}
	for i := range n {
		name := fmt.Sprintf("%05d-%s", i, strings.Repeat("n", 180))
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		want[name] = true
	}
	before := get(t, m, "reply_chunk_count")
	seen := map[string]int{}
	require.NoError(t, m.Walk(bg, "many", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			seen[d.Name()]++
		}
		return err
	}), "%s", &trace)
	assert.Len(t, seen, n)
	for name, k := range seen {
		if k != 1 || !want[name] {
			require.Fail(t, fmt.Sprintf("%s listed %d times, made %t", name, k, want[name]))
		}
	}
	assert.Greater(t, get(t, m, "reply_chunk_count"), before)
	wantClean(t, m)
}

// The server's threads end and come back under load, three times: its listener goes away, connections end, and
// nothing that was answered is lost.
func TestThreadsStopAndStart(t *testing.T) {
	r := newRig(t)
	m := r.dial(nfsclient.Config{Timeout: 5 * time.Second})
	var stop atomic.Bool
	var wg sync.WaitGroup
	const writers = 4
	written := make([]int, writers)
	for i := range writers {
		wg.Go(func() {
			for k := 0; !stop.Load(); k++ {
				if err := m.WriteFile(bg, fmt.Sprintf("w%d-%d", i, k), data(20_000, uint32(i*1000+k)), 0o644); !assert.NoError(t, err) {
					return
				}
				written[i] = k + 1
			}
		})
	}
	for range 3 {
		time.Sleep(300 * time.Millisecond) // of load
		sh(t, "guest-nfsd", "threads", "0")
		time.Sleep(100 * time.Millisecond)
		sh(t, "guest-nfsd", "threads", "4")
	}
	time.Sleep(300 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
	total := 0
	for i, n := range written {
		for k := range n {
			sameFile(t, fmt.Sprintf("w%d-%d", i, k), data(20_000, uint32(i*1000+k)))
		}
		total += n
	}
	assert.Positive(t, total)
	t.Logf("%d files, %d retransmissions", total, get(t, m, "retransmissions"))
	assert.Zero(t, get(t, m, "bad_reply_count"))
}

// The connection is broken by the client, again and again, in the middle of transfers.
func TestReconnect(t *testing.T) {
	r := newRig(t)
	m := r.dial(nfsclient.Config{ReconnectMin: time.Millisecond, ReconnectMax: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(bg)
	var wg sync.WaitGroup
	breaks := 1 << 20
	if r.dev.Attr().Transport == verbs.IWARP {
		breaks = 5 // of some dozens, one leaves siw and the kernel's server waiting for each other when its threads end
	}
	wg.Go(func() {
		for i := 0; i < breaks && ctx.Err() == nil; i++ {
			time.Sleep(30 * time.Millisecond)
			m.Disconnect()
		}
	})
	want := data(8<<20, 9)
	require.NoError(t, m.WriteFile(bg, "f", want, 0o644))
	got, err := m.ReadFile(bg, "f")
	cancel()
	wg.Wait()
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
	sameFile(t, "f", want)
	assert.Positive(t, get(t, m, "retransmissions"))
	assert.Zero(t, get(t, m, "bad_reply_count"))
}
