package linuxclient

import (
	"context"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/nfsrdma/nfsserver/dirfs"
	"example.org/nfsrdma/nfsserver/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSizes writes and reads with each rsize and wsize, through the page cache and without.
func TestSizes(t *testing.T) {
	r := newRig(t, newMemFS())
	for i, size := range []int{4 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r.mount(fmt.Sprintf("noacl,rsize=%d,wsize=%d", size, size))
			t.Cleanup(r.umount)
			assert.Contains(t, mountOptions(t), fmt.Sprintf("rsize=%d,wsize=%d,", size, size))
			n := min(256*size, 4<<20)
			before := r.stats()
			name := filepath.Join(mnt, fmt.Sprint("buffered", size))
			data := pattern(byte(i), n+777)
			write(t, name, data)
			wantFile(t, name, data)

			direct := filepath.Join(mnt, fmt.Sprint("direct", size))
			f := open(t, direct, os.O_RDWR|os.O_CREATE|unix.O_DIRECT)
			block := aligned(t, n)
			copy(block, data)
			_, err := f.WriteAt(block, 0)
			require.NoError(t, err)
			clear(block)
			_, err = f.ReadAt(block, 0)
			require.NoError(t, err)
			assert.Equal(t, md5.Sum(data[:n]), md5.Sum(block))
			require.NoError(t, f.Close())

			after := r.stats()
			assert.EqualValues(t, len(data)+n, after.WriteBytes-before.WriteBytes)
			assert.EqualValues(t, len(data)+n, after.ReadBytes-before.ReadBytes)
			assert.GreaterOrEqual(t, after.Procs[7]-before.Procs[7], uint64((len(data)+n)/size), "WRITE")
			assert.GreaterOrEqual(t, after.Procs[6]-before.Procs[6], uint64((len(data)+n)/size), "READ")
		})
	}
}

// fio runs a job on the mount; its own check of what it reads is the point.
func fio(t *testing.T, args ...string) string {
	t.Helper()
	out := sh(t, append([]string{"fio", "--name=job", "--directory=" + mnt, "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"}, args...)...)
	assert.NotContains(t, out, "verify:", "fio complains")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "READ:") || strings.Contains(line, "WRITE:") {
			t.Log(strings.TrimSpace(line))
		}
	}
	return out
}

func fileSum(t *testing.T, name string) string {
	t.Helper()
	return strings.Fields(sh(t, "md5sum", name))[0]
}

// servedSum is the sum of a file in the export's root as the server has it.
func servedSum(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	var a vfs.Attr
	require.NoError(t, fs.Lookup(context.Background(), fs.Root(), name, &a))
	h := md5.New()
	buf := make([]byte, 1<<20)
	for off := uint64(0); ; {
		n, eof, err := fs.Read(context.Background(), a.ID, off, buf, &a)
		require.NoError(t, err)
		h.Write(buf[:n])
		if off += uint64(n); eof {
			return fmt.Sprintf("%x", h.Sum(nil))
		}
	}
}

// TestFio has 64 MiB written at random places and checked by fio, and the same after a new mount.
func TestFio(t *testing.T) {
	fs := newMemFS()
	r := newRig(t, fs)
	r.mount("noacl")
	fio(t, "--filename=direct", "--rw=randwrite", "--bs=128k", "--size=64m", "--direct=1", "--ioengine=libaio", "--iodepth=8")
	fio(t, "--filename=buffered", "--rw=randwrite", "--bsrange=4k-512k", "--size=64m", "--ioengine=psync", "--end_fsync=1", "--invalidate=1")
	sums := map[string]string{}
	for _, name := range []string{"direct", "buffered"} {
		sums[name] = servedSum(t, fs, name)
		assert.EqualValues(t, 64<<20, stat(t, filepath.Join(mnt, name)).Size)
	}
	r.remount("noacl")
	for name, sum := range sums {
		assert.Equal(t, sum, fileSum(t, filepath.Join(mnt, name)), name)
	}
	st := r.stats()
	assert.GreaterOrEqual(t, st.ReadBytes, uint64(3*64<<20)) // one at least when it is checked, both after the new mount
	assert.GreaterOrEqual(t, st.WriteBytes, uint64(2*64<<20))
}

// TestACL mounts without noacl: the kernel asks for NFSACL, which we do not have.
func TestACL(t *testing.T) {
	r := newRig(t, newMemFS())
	r.expected = []string{"rpc_prog_unavail"}
	r.mount("")
	write(t, filepath.Join(mnt, "file"), []byte("text"))
	var buf [64]byte
	_, err := unix.Getxattr(filepath.Join(mnt, "file"), "system.posix_acl_access", buf[:])
	assert.ErrorIs(t, err, unix.EOPNOTSUPP)
	require.NoError(t, os.Mkdir(filepath.Join(mnt, "dir"), 0o777))
	write(t, filepath.Join(mnt, "dir", "file"), []byte("deeper"))
	wantFile(t, filepath.Join(mnt, "dir", "file"), []byte("deeper"))
	st := r.stats()
	assert.NotZero(t, st.ProgUnavail)
}

// TestDirectoryExport serves a directory of the guest.
func TestDirectoryExport(t *testing.T) {
	root := t.TempDir()
	fs, err := dirfs.New(root, dirfs.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fs.Close()) })
	r := newRig(t, fs)
	r.mount("noacl")
	there := func(name string) string { return filepath.Join(root, name) }
	here := func(name string) string { return filepath.Join(mnt, name) }

	data := pattern(1, 8<<20+1)
	write(t, here("file"), data)
	got, err := os.ReadFile(there("file"))
	require.NoError(t, err)
	assert.Equal(t, md5.Sum(data), md5.Sum(got))
	wantFile(t, here("file"), data)

	require.NoError(t, os.MkdirAll(here("a/b/c"), 0o750))
	require.NoError(t, os.Rename(here("file"), here("a/b/c/file")))
	require.NoError(t, os.Link(here("a/b/c/file"), here("link")))
	require.NoError(t, os.Symlink("a/b", here("sym")))
	require.NoError(t, os.Chown(here("link"), 12, 34))
	st := stat(t, there("a/b/c/file"))
	assert.EqualValues(t, []uint32{2, 12, 34}, []uint32{uint32(st.Nlink), st.Uid, st.Gid})
	wantFile(t, here("sym/c/file"), data)
	require.NoError(t, os.Truncate(here("link"), 5000))
	wantFile(t, here("sym/c/file"), data[:5000])

	for i := range 500 { // by another, behind the server
		write(t, there(fmt.Sprintf("a/%03d", i)), []byte("x"))
	}
	dropCaches(t)
	assert.Len(t, readNames(t, here("a")), 501)
	require.NoError(t, os.RemoveAll(here("a")))
	_, err = os.Lstat(there("a"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	fio(t, "--filename=fio", "--rw=randwrite", "--bs=16k", "--size=8m", "--ioengine=psync", "--end_fsync=1")
}
