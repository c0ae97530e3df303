package linuxclient

import (
	"bytes"
	"crypto/md5"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pattern is n bytes that no two seeds share.
func pattern(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// wantFile compares a file with what it should hold, read from the server.
func wantFile(t *testing.T, name string, want []byte) {
	t.Helper()
	dropCaches(t)
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	require.Equal(t, md5.Sum(want), md5.Sum(got), name)
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, data, 0o644))
}

func stat(t *testing.T, name string) *unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(name, &st))
	return &st
}

func open(t *testing.T, name string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, flags, 0o644)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestFiles has each operation on files, on one mount.
func TestFiles(t *testing.T) {
	r := newRig(t, newMemFS())
	r.mount("noacl")
	for _, c := range []struct {
		name string
		test func(t *testing.T, dir string)
	}{
		{"CreateWriteRead", testCreateWriteRead},
		{"Truncate", testTruncate},
		{"Sparse", testSparse},
		{"Append", testAppend},
		{"Exclusive", testExclusive},
		{"MmapRead", testMmapRead},
		{"MmapShared", testMmapShared},
		{"Direct", testDirect},
		{"Fsync", testFsync},
		{"Rename", testRename},
		{"RenameDirectory", testRenameDirectory},
		{"HardLink", testHardLink},
		{"Symlink", testSymlink},
		{"UnlinkOpen", testUnlinkOpen},
		{"Attributes", testAttributes},
		{"SpecialFiles", testSpecialFiles},
		{"Statfs", testStatfs},
		{"Errors", testErrors},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(mnt, c.name)
			require.NoError(t, os.Mkdir(dir, 0o755))
			t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) }) // after files are closed
			c.test(t, dir)
		})
	}
	assert.Empty(t, readNames(t, mnt))
}

func testCreateWriteRead(t *testing.T, dir string) {
	// Around the inline threshold, a page, wsize.
	for i, n := range []int{0, 1, 3, 3500, 4000, 4095, 4096, 4097, 8191, 65536, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 + 5} {
		name := filepath.Join(dir, "file")
		data := pattern(byte(i), n)
		write(t, name, data)
		assert.EqualValues(t, n, stat(t, name).Size)
		wantFile(t, name, data)
		require.NoError(t, os.Remove(name))
	}
}

func testTruncate(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	data := pattern(1, 300_001)
	write(t, name, data)
	for _, n := range []int{200_000, 65536, 65535, 4097, 70_000, 1, 0, 100_000} {
		require.NoError(t, os.Truncate(name, int64(n)))
		if n < len(data) {
			data = data[:n]
		} else {
			data = append(data[:len(data):len(data)], make([]byte, n-len(data))...)
		}
		wantFile(t, name, data)
	}
	f := open(t, name, os.O_WRONLY|os.O_TRUNC)
	require.NoError(t, f.Close())
	wantFile(t, name, nil)
}

func testSparse(t *testing.T, dir string) {
	const far = 5<<30 + 12345
	name := filepath.Join(dir, "file")
	f := open(t, name, os.O_RDWR|os.O_CREATE)
	end := pattern(2, 5000)
	_, err := f.WriteAt(end, far)
	require.NoError(t, err)
	_, err = f.WriteAt(end, 1<<20+1)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	dropCaches(t)
	st := stat(t, name)
	assert.EqualValues(t, far+len(end), st.Size)
	assert.Less(t, st.Blocks*512, int64(1<<20))
	want := make([]byte, 2<<20)
	copy(want[1<<20+1:], end)
	got := make([]byte, len(want))
	_, err = io.ReadFull(io.NewSectionReader(f, 0, int64(len(got))), got)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
	got = make([]byte, 2*len(end))
	n, err := f.ReadAt(got, far)
	assert.Equal(t, io.EOF, err)
	assert.True(t, bytes.Equal(end, got[:n]))
}

func testAppend(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	var want []byte
	for i := range 20 {
		f := open(t, name, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
		for j := range 5 {
			data := pattern(byte(5*i+j), 1000+37*i)
			_, err := f.Write(data)
			require.NoError(t, err)
			want = append(want, data...)
		}
		require.NoError(t, f.Close())
	}
	wantFile(t, name, want)
}

func testExclusive(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.EqualValues(t, syscall.S_IFREG|0o640, stat(t, name).Mode)
	dropCaches(t) // the server has to refuse
	_, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640)
	assert.ErrorIs(t, err, os.ErrExist)
	// The verifier of the creation must not show as a time.
	assert.WithinDuration(t, time.Now(), time.Unix(stat(t, name).Mtim.Unix()), time.Hour)
}

func testMmapRead(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	data := pattern(3, 1<<20+100)
	write(t, name, data)
	dropCaches(t)
	f := open(t, name, os.O_RDONLY)
	m, err := unix.Mmap(int(f.Fd()), 0, len(data), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	assert.Equal(t, data[1<<20], m[1<<20]) // backwards, by page
	assert.Equal(t, data[7*4096], m[7*4096])
	assert.True(t, bytes.Equal(data, m))
	require.NoError(t, unix.Munmap(m))
}

func testMmapShared(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	data := make([]byte, 300_000)
	f := open(t, name, os.O_RDWR|os.O_CREATE)
	require.NoError(t, f.Truncate(int64(len(data))))
	m, err := unix.Mmap(int(f.Fd()), 0, len(data), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	for i, off := range []int{0, 5000, 4096*20 - 3, 299_990} {
		p := pattern(byte(i), 10)
		copy(m[off:], p)
		copy(data[off:], p)
	}
	require.NoError(t, unix.Msync(m, unix.MS_SYNC))
	wantFile(t, name, data)
	p := pattern(9, 100_000)
	copy(m[100_000:], p)
	copy(data[100_000:], p)
	require.NoError(t, unix.Munmap(m))
	require.NoError(t, f.Close())
	wantFile(t, name, data)
}

// aligned is memory for O_DIRECT.
func aligned(t *testing.T, n int) []byte {
	t.Helper()
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(m) })
	return m
}

func testDirect(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	f := open(t, name, os.O_RDWR|os.O_CREATE|unix.O_DIRECT)
	data := aligned(t, 3<<20)
	copy(data, pattern(4, len(data)))
	_, err := f.WriteAt(data, 0)
	require.NoError(t, err)
	copy(data[8192:], pattern(5, 512)) // NFS asks for no alignment of files
	_, err = f.WriteAt(data[8192:8192+512], 8192)
	require.NoError(t, err)
	got := aligned(t, len(data)+4096)
	n, err := f.ReadAt(got, 0)
	assert.Equal(t, io.EOF, err)
	assert.True(t, bytes.Equal(data, got[:n]))
	_, err = f.ReadAt(got[:1000], 12345)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data[12345:13345], got[:1000]))
	wantFile(t, name, data)
}

func testFsync(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	data := pattern(6, 200_000)
	f := open(t, name, os.O_WRONLY|os.O_CREATE)
	_, err := f.Write(data)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, unix.Fdatasync(int(f.Fd())))
	s := open(t, name, os.O_WRONLY|os.O_SYNC)
	copy(data[1000:], pattern(7, 5000))
	_, err = s.WriteAt(data[1000:6000], 1000)
	require.NoError(t, err)
	wantFile(t, name, data)
	d := open(t, dir, os.O_RDONLY)
	assert.NoError(t, d.Sync())
}

func testRename(t *testing.T, dir string) {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, []byte("of a"))
	write(t, b, []byte("of b"))
	id := stat(t, a).Ino
	require.NoError(t, os.Rename(a, b))
	assert.Equal(t, []string{"b"}, readNames(t, dir))
	wantFile(t, b, []byte("of a"))
	assert.Equal(t, id, stat(t, b).Ino)

	// What is replaced while it is open stays readable.
	write(t, a, []byte("new"))
	f := open(t, b, os.O_RDONLY)
	require.NoError(t, os.Rename(a, b))
	dropCaches(t)
	got, err := io.ReadAll(f)
	require.NoError(t, err)
	assert.Equal(t, "of a", string(got))
	require.NoError(t, f.Close())
	assert.Equal(t, []string{"b"}, readNames(t, dir))

	assert.ErrorIs(t, os.Rename(a, b), os.ErrNotExist)
	assert.NoError(t, os.Rename(b, b))
}

func testRenameDirectory(t *testing.T, dir string) {
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	require.NoError(t, os.MkdirAll(in("x", "sub"), 0o755))
	require.NoError(t, os.MkdirAll(in("y"), 0o755))
	write(t, in("x", "sub", "file"), []byte("deep"))
	links := stat(t, in("y")).Nlink
	require.NoError(t, os.Rename(in("x", "sub"), in("y", "moved")))
	dropCaches(t)
	wantFile(t, in("y", "moved", "file"), []byte("deep"))
	assert.Equal(t, links+1, stat(t, in("y")).Nlink)
	assert.Equal(t, stat(t, in("y")).Ino, stat(t, in("y", "moved", "..")).Ino)
	require.NoError(t, unix.Rename(in("y", "moved"), in("x"))) // over an empty one
	assert.Equal(t, []string{"file"}, readNames(t, in("x")))
	require.NoError(t, os.Mkdir(in("z"), 0o755))
	assert.ErrorIs(t, unix.Rename(in("z"), in("x")), syscall.ENOTEMPTY)
	assert.ErrorIs(t, unix.Rename(in("z"), in("x", "file")), syscall.ENOTDIR)
	assert.ErrorIs(t, unix.Rename(in("x", "file"), in("z")), syscall.EISDIR)
	assert.ErrorIs(t, unix.Rename(in("x"), in("x", "below")), syscall.EINVAL)
}

func testHardLink(t *testing.T, dir string) {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, []byte("one"))
	require.NoError(t, os.Link(a, b))
	assert.EqualValues(t, 2, stat(t, a).Nlink)
	assert.Equal(t, stat(t, a).Ino, stat(t, b).Ino)
	write(t, b, []byte("two"))
	wantFile(t, a, []byte("two"))
	require.NoError(t, os.Remove(a))
	assert.EqualValues(t, 1, stat(t, b).Nlink)
	wantFile(t, b, []byte("two"))
	write(t, a, nil)
	assert.ErrorIs(t, os.Link(a, b), os.ErrExist)
	assert.ErrorIs(t, unix.Link(dir, filepath.Join(dir, "d")), syscall.EPERM)
}

func testSymlink(t *testing.T, dir string) {
	for i, n := range []int{1, 1000, 3900, 4000, 4095} {
		name := filepath.Join(dir, string(rune('a'+i)))
		target := strings.Repeat("t/", n)[:n]
		require.NoError(t, os.Symlink(target, name))
		dropCaches(t)
		got, err := os.Readlink(name)
		require.NoError(t, err, "%d", n)
		assert.Equal(t, target, got)
		assert.EqualValues(t, n, stat(t, name).Size)
		assert.EqualValues(t, syscall.S_IFLNK, stat(t, name).Mode&syscall.S_IFMT)
	}
	write(t, filepath.Join(dir, "file"), []byte("seen through it"))
	require.NoError(t, os.Symlink("file", filepath.Join(dir, "link")))
	wantFile(t, filepath.Join(dir, "link"), []byte("seen through it"))
}

// A file that is unlinked while it is open gets another name until it is closed (silly rename).
func testUnlinkOpen(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	data := pattern(8, 100_000)
	f := open(t, name, os.O_RDWR|os.O_CREATE)
	_, err := f.Write(data)
	require.NoError(t, err)
	require.NoError(t, os.Remove(name))
	names := readNames(t, dir)
	require.Len(t, names, 1)
	assert.Regexp(t, `^\.nfs`, names[0])
	require.NoError(t, f.Sync())
	dropCaches(t)
	got := make([]byte, len(data))
	_, err = f.ReadAt(got, 0)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, got))
	require.NoError(t, f.Close())
	assert.Empty(t, eventually(10*time.Second, func() string { return strings.Join(readNames(t, dir), " ") }))
}

func testAttributes(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	write(t, name, pattern(1, 10_000))
	for _, mode := range []uint32{0o600, 0o4755, 0o2711, 0o1777, 0, 0o644} {
		require.NoError(t, unix.Chmod(name, mode))
		dropCaches(t)
		assert.Equal(t, mode, stat(t, name).Mode&0o7777)
	}
	require.NoError(t, os.Chown(name, 1234, 70_000))
	dropCaches(t)
	st := stat(t, name)
	assert.EqualValues(t, []uint32{1234, 70_000}, []uint32{st.Uid, st.Gid})

	atime, mtime := time.Unix(1_000_000_000, 123_456_789), time.Unix(2_000_000_000, 987_654_321)
	require.NoError(t, os.Chtimes(name, atime, mtime))
	dropCaches(t)
	st = stat(t, name)
	assert.True(t, mtime.Equal(time.Unix(st.Mtim.Unix())))
	assert.True(t, atime.Equal(time.Unix(st.Atim.Unix())))
	before := st.Ctim
	require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_NOW}}, 0))
	dropCaches(t)
	st = stat(t, name)
	assert.WithinDuration(t, time.Now(), time.Unix(st.Mtim.Unix()), time.Minute)
	assert.True(t, atime.Equal(time.Unix(st.Atim.Unix())))
	assert.NotEqual(t, before, st.Ctim)

	// Another user may not do what the mode forbids.
	require.NoError(t, unix.Chmod(name, 0o600))
	require.NoError(t, os.Chmod(dir, 0o755))
	cmd, cancel := command("sh", "-c", "cat "+name+" 2>&1; touch "+dir+"/new 2>&1; ls "+dir)
	defer cancel()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4321, Gid: 4321}}
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(out), "ermission denied"), "%s", out)
	assert.Contains(t, string(out), "file")
}

func testSpecialFiles(t *testing.T, dir string) {
	for name, mode := range map[string]uint32{"fifo": syscall.S_IFIFO, "socket": syscall.S_IFSOCK, "char": syscall.S_IFCHR, "block": syscall.S_IFBLK} {
		p := filepath.Join(dir, name)
		dev := 0
		if mode == syscall.S_IFCHR || mode == syscall.S_IFBLK {
			dev = int(unix.Mkdev(1, 3))
		}
		require.NoError(t, unix.Mknod(p, mode|0o644, dev), name)
		dropCaches(t)
		st := stat(t, p)
		assert.Equal(t, mode|0o644, st.Mode, name)
		assert.EqualValues(t, dev, st.Rdev, name)
	}
}

func testStatfs(t *testing.T, dir string) {
	var before, after unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &before))
	assert.EqualValues(t, unix.NFS_SUPER_MAGIC, before.Type)
	assert.EqualValues(t, 255, before.Namelen)
	assert.EqualValues(t, 8<<30, before.Blocks*uint64(before.Bsize))
	write(t, filepath.Join(dir, "file"), make([]byte, 4<<20))
	require.NoError(t, unix.Statfs(dir, &after))
	assert.EqualValues(t, 4<<20, (before.Bfree-after.Bfree)*uint64(before.Bsize))
	assert.EqualValues(t, 1, before.Ffree-after.Ffree)
}

func testErrors(t *testing.T, dir string) {
	file, sub := filepath.Join(dir, "file"), filepath.Join(dir, "sub")
	write(t, file, nil)
	require.NoError(t, os.MkdirAll(filepath.Join(sub, "below"), 0o755))
	assert.ErrorIs(t, unix.Mkdir(sub, 0o755), syscall.EEXIST)
	assert.ErrorIs(t, unix.Rmdir(sub), syscall.ENOTEMPTY)
	assert.ErrorIs(t, unix.Rmdir(file), syscall.ENOTDIR)
	assert.ErrorIs(t, unix.Unlink(sub), syscall.EISDIR)
	assert.ErrorIs(t, unix.Unlink(filepath.Join(dir, "none")), syscall.ENOENT)
	write(t, filepath.Join(dir, strings.Repeat("n", 255)), nil)
	assert.ErrorIs(t, unix.Mkdir(filepath.Join(dir, strings.Repeat("n", 256)), 0o755), syscall.ENAMETOOLONG)
	assert.ErrorIs(t, unix.Truncate(file, 1<<50), syscall.EFBIG)
	for _, n := range []string{"ä", "new\nline", "tab\t", "\xff\xfe", "...", " "} {
		write(t, filepath.Join(dir, n), []byte(n))
	}
	dropCaches(t)
	assert.Subset(t, readNames(t, dir), []string{"ä", "new\nline", "tab\t", "\xff\xfe", "...", " "})
}
