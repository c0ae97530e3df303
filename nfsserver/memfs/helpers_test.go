package memfs

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

func newFile(t testing.TB, fs *FS, name string) vfs.ID {
	t.Helper()
	var a vfs.Attr
	require.NoError(t, fs.Create(t.Context(), fs.Root(), name, vfs.Guarded, 0, nil, &a, nil))
	return a.ID
}

func writeFile(t testing.TB, fs *FS, id vfs.ID, off uint64, data []byte, stable bool) {
	t.Helper()
	require.NoError(t, fs.Write(t.Context(), id, off, data, stable, nil))
}

func setSize(t testing.TB, fs *FS, id vfs.ID, size uint64) {
	t.Helper()
	require.NoError(t, fs.SetAttr(t.Context(), id, &vfs.SetAttr{SetSize: true, Size: size}, nil, nil))
}

func removeFile(t testing.TB, fs *FS, name string) {
	t.Helper()
	require.NoError(t, fs.Remove(t.Context(), fs.Root(), name, nil))
}

// wantData checks the whole content of a file.
func wantData(t testing.TB, fs *FS, id vfs.ID, want []byte) {
	t.Helper()
	var a vfs.Attr
	buf := make([]byte, len(want)+1)
	n, eof, err := fs.Read(t.Context(), id, 0, buf, &a)
	require.NoError(t, err)
	require.True(t, eof)
	require.EqualValues(t, len(want), a.Size)
	require.Equal(t, want, buf[:n])
}

func wantConsistent(t testing.TB, fs *FS, pinned int) {
	t.Helper()
	require.NoError(t, fs.CheckConsistent())
	require.Equal(t, pinned, fs.Pinned())
}

func filled(n int, b byte) []byte { return bytes.Repeat([]byte{b}, n) }
