package fabric_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// onceFS counts calls that must not be executed twice.
type onceFS struct {
	*memfs.FS
	mkdirs, removes, renames, links atomic.Int64
}

func (o *onceFS) Mkdir(ctx context.Context, dir vfs.ID, name string, s *vfs.SetAttr, a *vfs.Attr, w *vfs.WCC) error {
	o.mkdirs.Add(1)
	return o.FS.Mkdir(ctx, dir, name, s, a, w)
}

func (o *onceFS) Rmdir(ctx context.Context, dir vfs.ID, name string, w *vfs.WCC) error {
	o.removes.Add(1)
	return o.FS.Rmdir(ctx, dir, name, w)
}

func (o *onceFS) Rename(ctx context.Context, from vfs.ID, fromName string, to vfs.ID, toName string, wfrom, wto *vfs.WCC) error {
	o.renames.Add(1)
	return o.FS.Rename(ctx, from, fromName, to, toName, wfrom, wto)
}

func (o *onceFS) Link(ctx context.Context, id, dir vfs.ID, name string, a *vfs.Attr, w *vfs.WCC) error {
	o.links.Add(1)
	return o.FS.Link(ctx, id, dir, name, a, w)
}

// TestReconnects breaks the connection again and again under load. Data stays exact, and what must not
// be executed twice is not.
func TestReconnects(t *testing.T) {
	eachMode(t, func(t *testing.T, p fabric.Params) {
		once := &onceFS{FS: memfs.New(memfs.Options{RootMode: 0o777, Capacity: 1 << 30})}
		p.Link, p.Storage, p.Credits = &fabric.RoCE25G, fabric.FileSystem("once", once), 12
		p.Client = func(c *nfsclient.Config) {
			c.ReconnectMin, c.ReconnectMax, c.Timeout = time.Millisecond, 4*time.Millisecond, 300*time.Millisecond
		}
		f := fabric.New(t, p)
		m := f.Mount(t, "/")
		const tasks, rounds = 6, 40
		var left atomic.Int32
		var waits []func(context.Context) error
		start := func(name string, fn func()) {
			left.Add(1)
			waits = append(waits, f.Go(name, func() {
				defer left.Add(-1)
				fn()
			}))
		}
		for i := range tasks {
			start(fmt.Sprintf("names %d", i), func() {
				fsys := m.NFS().FS(bg)
				dir := fmt.Sprintf("t%d", i)
				if !assert.NoError(t, fsys.Mkdir(dir, 0o755)) {
					return
				}
				assert.NoError(t, fsys.WriteFile(dir+"/f", data(20_000, byte(i)), 0o644))
				for k := range rounds {
					a, b := fmt.Sprintf("%s/a%d", dir, k), fmt.Sprintf("%s/b%d", dir, k)
					assert.NoError(t, fsys.Mkdir(a, 0o755))
					assert.NoError(t, fsys.Rename(a, b))
					assert.NoError(t, fsys.Link(dir+"/f", a))
					assert.NoError(t, fsys.Remove(b))
					file, err := fsys.OpenFile(b, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
					if assert.NoError(t, err) {
						assert.NoError(t, file.Close())
					}
					if t.Failed() {
						return
					}
				}
				got, err := fsys.ReadFile(dir + "/f")
				assert.NoError(t, err)
				assert.Equal(t, data(20_000, byte(i)), got)
			})
		}
		start("load", func() {
			for _, op := range []fabric.Op{fabric.Write, fabric.Mix, fabric.Read} {
				_, err := f.RunLoad(bg, fabric.Load{Op: op, ReadPercent: 50, FileSize: 2 << 20, Depth: 8, Calls: 100, Verify: true})
				assert.NoError(t, err)
			}
		})
		rng := rand.New(rand.NewPCG(1, 1))
		breaks, seen := 0, uint64(0)
		for left.Load() > 0 {
			require.NoError(t, f.Sleep(bg, time.Duration(20+rng.IntN(150))*time.Microsecond))
			recvs, _ := f.Client().Counters().Get("recvs")
			if recvs < seen+10 { // so that there is progress on any machine
				continue
			}
			seen = recvs
			if breaks++; rng.IntN(3) == 0 {
				f.NFSServer().Disconnect()
			} else {
				m.NFS().Disconnect()
			}
		}
		waitAll(t, waits)
		assert.EqualValues(t, tasks*(1+rounds), once.mkdirs.Load())
		assert.EqualValues(t, tasks*rounds, once.removes.Load())
		assert.EqualValues(t, tasks*rounds, once.renames.Load())
		assert.EqualValues(t, tasks*rounds, once.links.Load())
		for i := range tasks {
			list, err := m.NFS().FS(bg).ReadDir(fmt.Sprintf("t%d", i))
			assert.NoError(t, err)
			assert.Len(t, list, 1+2*rounds)
		}
		t.Logf("%d breaks in %v\n%v\n%v", breaks, f.Now(), f.Client().Counters(), f.Server().Counters())
		f.Client().Counters().Want(t, "connect_count>10 retransmissions>50 bad_reply_count=0")
		if !p.Live {
			f.Server().Counters().Want(t, "drc_hits>0")
		}
	})
}
