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
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				plan := planChaos(seed)
				plan.params.Faults, plan.crash, plan.remove, plan.soft = nil, false, false, false
				plan.params.Faults = []faults.Fault{{Kind: faults.Slow, P: 0.1, By: 100 * time.Microsecond, Optional: true}}
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
	writes, gone, reads int
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
	return l.FS.Write(ctx, id, off, src, stable, w)
}

func (l *liar) Remove(ctx context.Context, dir vfs.ID, name string, w *vfs.WCC) error {
	if l.gone++; l.ghost > 0 && l.gone%l.ghost == 0 {
		return nil
	}
	return l.FS.Remove(ctx, dir, name, w)
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
	require.NoError(t, f.checkAll(nil, true))
	v1, v2 := f.next(), f.next()
	f.size = 30
	f.note(v1, 0, 2, maybe)
	require.NoError(t, f.checkAll(nil, false))
	require.NoError(t, f.checkAll(f.data(v1, 0, 2), false))
	mixed := append(f.data(v1, 0, 1)[:5], make([]byte, 5)...)
	require.NoError(t, f.checkAll(mixed, true), "byte by byte")
	require.Error(t, f.checkAll(f.data(v1, 0, 3), false), "cell 2 was never written")
	f.note(v1, 0, 2, done)
	require.Error(t, f.checkAll(nil, false))
	require.Error(t, f.checkAll(mixed, true))
	f.note(v2, 1, 3, volatil)
	require.NoError(t, f.checkAll(f.data(v1, 0, 2), false), "a crash may take it back")
	both := append(f.data(v1, 0, 1), f.data(v2, 1, 3)...)
	require.NoError(t, f.checkAll(both, false))
	f.note(v2, 1, 3, late)
	v3 := f.next()
	f.note(v3, 0, 3, done)
	require.NoError(t, f.checkAll(append(f.data(v3, 0, 1), f.data(v2, 1, 3)...), true), "it came late")
	require.Error(t, f.checkAll(both, true))
	require.Error(t, f.checkAll(make([]byte, 31), true))

	strict := newChaosFile(2, "y", 8, 1, false)
	v := strict.next()
	strict.size = 8
	strict.note(v, 0, 1, volatil)
	require.Error(t, strict.checkAll(nil, false), "no crash can have taken it back")
	require.NoError(t, strict.checkAll(nil, true), "the last crash can")
}
