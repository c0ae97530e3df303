package memfs

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.org/nfsrdma/nfsserver/vfs"
)

const raceChunks, raceRounds = 24, 400

// Chunks are written whole with one value, so that every page that is lent
// holds one value, as long as it is lent.
func TestConcurrentReadersAndWriters(t *testing.T) {
	for name, opt := range map[string]Options{"plain": {}, "track unstable": {TrackUnstable: true}} {
		t.Run(name, func(t *testing.T) {
			fs := New(opt)
			f := newFile(t, fs, "f")
			var g errgroup.Group
			for k := range 6 {
				rnd := rand.New(rand.NewPCG(uint64(k), 1))
				task := []func(*testing.T, *FS, vfs.ID, *rand.Rand) error{raceReadPages, raceWritePages, raceOthers}[k%3]
				g.Go(func() error { return task(t, fs, f, rnd) })
			}
			require.NoError(t, g.Wait())
			wantConsistent(t, fs, 0)
		})
	}
}

func raceReadPages(t *testing.T, fs *FS, f vfs.ID, rnd *rand.Rand) error {
	var p vfs.Pages
	var a vfs.Attr
	for range raceRounds {
		off := uint64(rnd.IntN(raceChunks)) * ChunkSize
		if _, err := fs.ReadPages(t.Context(), f, off, (1+rnd.IntN(8))*ChunkSize, &p, &a); err != nil {
			return err
		}
		var first []byte
		for i := range p.List {
			first = append(first, p.List[i].Bytes()[0])
		}
		runtime.Gosched()
		for i := range p.List {
			b := p.List[i].Bytes()
			assert.Equal(t, len(b), bytes.Count(b, first[i:i+1]), "a lent page changed")
		}
		fs.ReleasePages(&p)
	}
	return nil
}

func raceWritePages(t *testing.T, fs *FS, f vfs.ID, rnd *rand.Rand) error {
	var p vfs.Pages
	for r := range raceRounds {
		off, n := uint64(rnd.IntN(raceChunks))*ChunkSize, (1+rnd.IntN(4))*ChunkSize
		if !fs.GrabPages(f, off, n, &p) {
			return vfs.ErrInval
		}
		for i := range p.List {
			copy(p.List[i].Bytes(), filled(ChunkSize, byte(r)))
		}
		if err := fs.WritePages(t.Context(), f, off, &p, r%5 == 0, nil); err != nil {
			return err
		}
	}
	return nil
}

func raceOthers(t *testing.T, fs *FS, f vfs.ID, rnd *rand.Rand) error {
	ctx := t.Context()
	buf := make([]byte, ChunkSize)
	for r := range raceRounds {
		off := uint64(rnd.IntN(raceChunks)) * ChunkSize
		err := fs.Write(ctx, f, off, filled(ChunkSize, byte(r)), false, nil)
		if err != nil {
			return err
		}
		switch r % 8 {
		case 0:
			err = fs.SetAttr(ctx, f, &vfs.SetAttr{SetSize: true, Size: off}, nil, nil)
		case 1:
			err = fs.Commit(ctx, f, off, ChunkSize, nil)
		case 2:
			var n int
			n, _, err = fs.Read(ctx, f, off, buf, nil)
			assert.Equal(t, n, bytes.Count(buf[:n], buf[:1]))
		case 3:
			fs.Crash()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Names and files come and go under readers and writers.
func TestConcurrentNames(t *testing.T) {
	fs := New(Options{MaxFiles: 20})
	ctx := t.Context()
	var g errgroup.Group
	for k := range 4 {
		rnd := rand.New(rand.NewPCG(uint64(k), 2))
		g.Go(func() error {
			root := fs.Root()
			name := func() string { return string(rune('a' + rnd.IntN(6))) }
			var p vfs.Pages
			for range 1000 {
				var a vfs.Attr
				var w vfs.WCC
				// Any outcome is right but a broken file system.
				switch rnd.IntN(8) {
				case 0:
					_ = fs.Create(ctx, root, name(), vfs.Unchecked, 0, nil, &a, &w)
				case 1:
					_ = fs.Mkdir(ctx, root, name(), nil, &a, &w)
				case 2:
					_ = fs.Remove(ctx, root, name(), &w)
				case 3:
					_ = fs.Rmdir(ctx, root, name(), &w)
				case 4:
					to := root
					if fs.Lookup(ctx, root, name(), &a) == nil && a.Type == vfs.Directory {
						to = a.ID
					}
					_ = fs.Rename(ctx, root, name(), to, name(), &w, &w)
				case 5:
					if fs.Lookup(ctx, root, name(), &a) == nil {
						_ = fs.Link(ctx, a.ID, root, name(), &a, &w)
						_ = fs.SetAttr(ctx, a.ID, &vfs.SetAttr{SetMode: true, Mode: 0o600}, &a.Ctime, &w)
					}
				case 6:
					if fs.Lookup(ctx, root, name(), &a) == nil {
						_ = fs.Write(ctx, a.ID, uint64(rnd.IntN(100000)), []byte("data"), false, &w)
						_, _ = fs.ReadPages(ctx, a.ID, 0, 1<<20, &p, &a)
						runtime.Gosched()
						fs.ReleasePages(&p)
					}
				case 7:
					_, _, _ = fs.ReadDir(ctx, root, 0, 0, func(*vfs.DirEntry) bool { return true })
					_, _ = fs.Stat(ctx)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	wantConsistent(t, fs, 0)
}
