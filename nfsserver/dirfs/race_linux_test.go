package dirfs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsserver/vfs"
)

// Names and data change in many threads; what stays must be found all the time, and nothing is left over.
func TestConcurrentCalls(t *testing.T) {
	for name, without := range ways {
		t.Run(name, func(t *testing.T) {
			before := openFDs(t)
			root := t.TempDir()
			fs, err := newFS(root, Options{MaxOpen: 8, AsyncMeta: true}, without)
			require.NoError(t, err)
			concurrentCalls(t, fs)
			require.LessOrEqual(t, fs.cache.len(), 8)
			require.NoError(t, fs.Close())
			require.Equal(t, before, openFDs(t))
		})
	}
}

func concurrentCalls(t *testing.T, fs *FS) {
	ctx := t.Context()
	// Directories that move around, each with a file that is never removed.
	const dirs, rounds = 4, 60
	var dir, file [dirs]vfs.ID
	for k := range dirs {
		var a vfs.Attr
		require.NoError(t, fs.Mkdir(ctx, fs.Root(), fmt.Sprint("d", k), nil, &a, nil))
		dir[k] = a.ID
		require.NoError(t, fs.Create(ctx, dir[k], "stays", vfs.Guarded, 0, nil, &a, nil))
		file[k] = a.ID
		require.NoError(t, fs.Write(ctx, file[k], 0, []byte(fmt.Sprint("data", k)), false, nil))
	}
	var wg sync.WaitGroup
	for k := range dirs {
		wg.Go(func() { // renames
			from, fromName := fs.Root(), fmt.Sprint("d", k)
			for r := range rounds {
				to, toName := fs.Root(), fmt.Sprint("d", k)
				if r%2 == 0 && k > 0 {
					to, toName = dir[0], fmt.Sprint("in", k, r)
				}
				assert.NoError(t, fs.Rename(ctx, from, fromName, to, toName, &vfs.WCC{}, &vfs.WCC{}))
				from, fromName = to, toName
			}
		})
		wg.Go(func() { // looks on
			for range rounds {
				buf := make([]byte, 10)
				n, _, err := fs.Read(ctx, file[k], 0, buf, nil)
				assert.NoError(t, err)
				assert.Equal(t, fmt.Sprint("data", k), string(buf[:n]))
				var a vfs.Attr
				assert.NoError(t, fs.Lookup(ctx, dir[k], "stays", &a))
				assert.Equal(t, file[k], a.ID)
				assert.NoError(t, fs.Lookup(ctx, dir[k], "..", &a))
				_, _, err = fs.ReadDir(ctx, fs.Root(), 0, 0, func(*vfs.DirEntry) bool { return true })
				assert.NoError(t, err)
			}
		})
		wg.Go(func() { churn(ctx, t, fs, dir[k], k, rounds) })
	}
	wg.Wait()
}

// churn makes, links, renames and removes a file of its own.
func churn(ctx context.Context, t *testing.T, fs *FS, dir vfs.ID, k, rounds int) {
	for r := range rounds {
		var a vfs.Attr
		name := fmt.Sprint("x", k)
		assert.NoError(t, fs.Create(ctx, dir, name, vfs.Guarded, 0, nil, &a, &vfs.WCC{}))
		id := a.ID
		assert.NoError(t, fs.Write(ctx, id, uint64(r), []byte("abc"), false, &vfs.WCC{}))
		assert.NoError(t, fs.Link(ctx, id, fs.Root(), name, &a, &vfs.WCC{}))
		assert.NoError(t, fs.Remove(ctx, dir, name, &vfs.WCC{}))
		assert.NoError(t, fs.SetAttr(ctx, id, &vfs.SetAttr{SetSize: true, Size: 2}, nil, &vfs.WCC{}))
		assert.NoError(t, fs.Remove(ctx, fs.Root(), name, &vfs.WCC{}))
		assert.ErrorIs(t, fs.Attr(ctx, id, &a), vfs.ErrStale)
		assert.NoError(t, fs.Symlink(ctx, dir, name, "t", nil, &a, &vfs.WCC{}))
		assert.NoError(t, fs.Remove(ctx, dir, name, &vfs.WCC{}))
	}
}

// Writers of one file see sizes that only grow, each within its own call.
func TestConcurrentWCC(t *testing.T) {
	tr := newTree(t, Options{}, lacks{})
	f := tr.lookup("f")
	var wg sync.WaitGroup
	var mu sync.Mutex
	spans := make(map[uint64]uint64) // size before to size after
	for k := range 4 {
		wg.Go(func() {
			for r := range 50 {
				var w vfs.WCC
				assert.NoError(t, tr.Write(t.Context(), f, uint64(1000+(r*4+k)*10), make([]byte, 10), false, &w))
				if w.Before.Size != w.After.Size {
					mu.Lock()
					_, twice := spans[w.Before.Size]
					assert.False(t, twice, "two calls changed size %d", w.Before.Size)
					spans[w.Before.Size] = w.After.Size
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	size, steps := uint64(len("file")), 0
	for ; spans[size] != 0; steps++ {
		size = spans[size]
	}
	require.Len(t, spans, steps, "sizes make one chain")
	require.EqualValues(t, 1000+200*10, size)
}

// Close waits for calls, and those after it fail.
func TestCloseWhileInUse(t *testing.T) {
	before := openFDs(t)
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "f"), []byte("x"), 0o644))
	fs, err := New(root, Options{AsyncMeta: true})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for {
				var a vfs.Attr
				err := fs.Lookup(t.Context(), fs.Root(), "f", &a)
				if err == nil {
					err = fs.Write(t.Context(), a.ID, 0, []byte{byte(k)}, false, nil)
				}
				if err != nil {
					assert.ErrorIs(t, err, errClosed)
					return
				}
			}
		})
	}
	require.NoError(t, fs.Close())
	wg.Wait()
	require.Equal(t, before, openFDs(t))
}
