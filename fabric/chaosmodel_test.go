package fabric

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// Each of these liars is found out within a few seeds.
func TestChaosFindsLies(t *testing.T) {
	for name, lie := range map[string]func(p *chaosPlan){
		"async":  func(p *chaosPlan) { p.params.Storage = Memory().Crashable().WithAsync() },
		"no DRC": func(p *chaosPlan) { p.params.DRCEntries = -1; p.params.Faults = breaks(t) },
		"flip":   func(p *chaosPlan) { p.params.Storage = FileSystem("flip", newLiar(func(l *liar) { l.flip = 50 })) },
		"ghost":  func(p *chaosPlan) { p.params.Storage = FileSystem("ghost", newLiar(func(l *liar) { l.ghost = 3 })) },
		"stale":  func(p *chaosPlan) { p.params.Storage = FileSystem("stale", newLiar(func(l *liar) { l.stale = 20 })) },
		"copy":   func(p *chaosPlan) { p.params.Storage = FileSystem("copy", newLiar(func(l *liar) { l.copies = true })) },
		"astray": func(p *chaosPlan) {
			p.params.Storage = FileSystem("astray", newLiar(func(l *liar) { l.astray = true }))
		},
		"skip": func(p *chaosPlan) { p.params.Storage = FileSystem("skip", newLiar(func(l *liar) { l.skip = 20 })) },
		"stay": func(p *chaosPlan) { p.params.Storage = FileSystem("stay", newLiar(func(l *liar) { l.stay = true })) },
		"forget": func(p *chaosPlan) {
			p.params.Storage = FileSystem("forget", newLiar(func(l *liar) { l.forgets = true }))
			p.params.Faults, p.crash = []faults.Fault{{Kind: faults.Crash, Op: "READ", Every: 10, Optional: true}}, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				plan, err := planChaos(seed, ChaosOptions{Proto: "rdma", Faults: []faults.Fault{{Kind: faults.Slow, P: 0.1, By: 100 * time.Microsecond, Optional: true}}})
				require.NoError(t, err)
				plan.soft = false
				lie(&plan)
				if _, err := runChaos(context.Background(), seed, plan); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			assert.Fail(t, "nothing was found")
		})
	}
}

// breaks are connections that break again and again.
func breaks(t *testing.T) []faults.Fault {
	list, err := faults.Parse("disconnect op=CREATE every=2; disconnect op=RENAME every=2; slow by=300us p=0.2")
	require.NoError(t, err)
	return list
}

// liar is a file system that does now and then what it must not.
type liar struct {
	vfs.FS
	m                   *memfs.FS
	flip, ghost, stale  int // each nth WRITE, REMOVE, READ; 0 none
	skip                int // each nth name of a directory
	writes, gone, reads int
	listed              int
	copies              bool // LINK makes a file
	astray              bool // a long link leads elsewhere
	stay                bool // RENAME keeps the old name
	forgets             bool // what is to be stable is not
}

func newLiar(set func(*liar)) *liar {
	m := memfs.New(memfs.Options{RootMode: 0o777, Capacity: 1 << 30, TrackUnstable: true})
	l := &liar{FS: vfs.Plain(m), m: m}
	set(l)
	return l
}

func (l *liar) Crash()            { l.m.Crash() }
func (l *liar) WriteVerf() uint64 { return l.m.WriteVerf() }

func (l *liar) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
	if l.writes++; l.flip > 0 && l.writes%l.flip == 0 && len(src) > 0 {
		src = append([]byte(nil), src...)
		src[len(src)-1] ^= 1
	}
	return l.FS.Write(ctx, id, off, src, stable && !l.forgets, w)
}

func (l *liar) Remove(ctx context.Context, dir vfs.ID, name string, w *vfs.WCC) error {
	if l.gone++; l.ghost > 0 && l.gone%l.ghost == 0 {
		return nil
	}
	return l.FS.Remove(ctx, dir, name, w)
}

func (l *liar) Link(ctx context.Context, id, dir vfs.ID, name string, a *vfs.Attr, w *vfs.WCC) error {
	if l.copies {
		return l.FS.Create(ctx, dir, name, vfs.Guarded, 0, &vfs.SetAttr{}, a, w)
	}
	return l.FS.Link(ctx, id, dir, name, a, w)
}

func (l *liar) ReadLink(ctx context.Context, id vfs.ID) (string, error) {
	s, err := l.FS.ReadLink(ctx, id)
	if l.astray && len(s) > 500 {
		s = s[:500]
	}
	return s, err
}

func (l *liar) Rename(ctx context.Context, from vfs.ID, fromName string, to vfs.ID, toName string, wfrom, wto *vfs.WCC) error {
	var a vfs.Attr
	if l.stay && l.FS.Lookup(ctx, from, fromName, &a) == nil && a.Type == vfs.Regular {
		_ = l.FS.Remove(ctx, to, toName, wto)
		return l.FS.Link(ctx, a.ID, to, toName, &a, wto)
	}
	return l.FS.Rename(ctx, from, fromName, to, toName, wfrom, wto)
}

func (l *liar) ReadDir(ctx context.Context, dir vfs.ID, cookie, verf uint64, emit func(*vfs.DirEntry) bool) (uint64, bool, error) {
	return l.FS.ReadDir(ctx, dir, cookie, verf, func(e *vfs.DirEntry) bool {
		if l.listed++; l.skip > 0 && l.listed%l.skip == 0 {
			return true
		}
		return emit(e)
	})
}

func (l *liar) Read(ctx context.Context, id vfs.ID, off uint64, dst []byte, a *vfs.Attr) (int, bool, error) {
	n, eof, err := l.FS.Read(ctx, id, off, dst, a)
	if l.reads++; l.stale > 0 && l.reads%l.stale == 0 {
		clear(dst[:n])
	}
	return n, eof, err
}

func TestChaosModel(t *testing.T) {
	f := newChaosFile(1, "x", 10, 3, true)
	require.NoError(t, f.checkAll(nil, crashed))
	v1, v2 := f.next(), f.next()
	f.size = 30
	f.note(v1, 0, 2, maybe)
	require.NoError(t, f.checkAll(nil, ever))
	require.NoError(t, f.checkAll(f.data(v1, 0, 2), ever))
	mixed := append(f.data(v1, 0, 1)[:5], make([]byte, 5)...)
	require.NoError(t, f.checkAll(mixed, crashed), "byte by byte")
	require.Error(t, f.checkAll(f.data(v1, 0, 3), ever), "cell 2 was never written")
	f.note(v1, 0, 2, done)
	require.Error(t, f.checkAll(nil, ever))
	require.Error(t, f.checkAll(mixed, crashed))
	f.note(v2, 1, 3, volatil)
	require.NoError(t, f.checkAll(f.data(v1, 0, 2), ever), "a crash may take it back")
	both := append(f.data(v1, 0, 1), f.data(v2, 1, 3)...)
	require.NoError(t, f.checkAll(both, ever))
	f.note(v2, 1, 3, late)
	v3 := f.next()
	f.note(v3, 0, 3, done)
	require.NoError(t, f.checkAll(append(f.data(v3, 0, 1), f.data(v2, 1, 3)...), crashed), "it came late")
	require.Error(t, f.checkAll(both, crashed))
	require.Error(t, f.checkAll(make([]byte, 31), crashed))

	strict := newChaosFile(2, "y", 8, 1, false)
	v := strict.next()
	strict.size = 8
	strict.note(v, 0, 1, fresh)
	require.Error(t, strict.checkAll(nil, ever), "no crash can have taken it back")
	require.NoError(t, strict.checkAll(nil, crashed), "the last crash can")
}

// As long as there was no crash, data that was written is there; then it is or not.
func TestChaosModelCalm(t *testing.T) {
	f := newChaosFile(1, "x", 10, 1, true)
	f.size = 10
	f.begin(2)
	v1 := f.next()
	f.note(v1, 0, 1, fresh)
	require.NoError(t, f.checkAll(f.data(v1, 0, 1), calm))
	require.Error(t, f.checkAll(nil, calm))
	require.NoError(t, f.checkAll(nil, ever))
	f.begin(4)
	require.NoError(t, f.checkAll(nil, calm))
	v2 := f.next()
	f.note(v2, 0, 1, volatil)
	for _, b := range [][]byte{nil, f.data(v1, 0, 1), f.data(v2, 0, 1)} {
		require.NoError(t, f.checkAll(b, calm))
	}
	f.note(v2, 0, 1, done)
	require.Error(t, f.checkAll(f.data(v1, 0, 1), crashed))
}
