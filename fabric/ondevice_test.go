package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
)

// The tests of this file run on any device: $NFSRDMA_DEVICE, or the embedded one, live.

// deviceModes runs f in each registration mode that the device has.
func deviceModes(t *testing.T, f func(t *testing.T, p fabric.Params)) {
	ran := 0
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			p := fabric.Params{Live: true, RegMode: mode}
			x, err := fabric.Start(p)
			require.NoError(t, err)
			_, err = x.Dial(bg, "/")
			require.NoError(t, x.Close())
			if errors.Is(err, verbs.ErrUnsupported) {
				t.Skip(err)
			}
			require.NoError(t, err)
			ran++
			f(t, p)
		})
	}
	assert.GreaterOrEqual(t, ran, 2, "modes that the device has")
}

// wantUnbroken fails if a connection was lost, or a message not understood.
func wantUnbroken(t *testing.T, f *fabric.Fabric) {
	t.Helper()
	for _, name := range []string{"retransmissions", "bad_reply_count", "failed_marshal_count"} {
		n, ok := f.Client().Counters().Get(name)
		assert.True(t, ok, name)
		assert.Zero(t, n, "%s\nclient %s\nserver %s\ndevice %s", name,
			f.Client().Counters(), f.Server().Counters(), f.Client().Device())
	}
}

func TestOnDeviceLoads(t *testing.T) {
	deviceModes(t, func(t *testing.T, p fabric.Params) {
		f := fabric.New(t, p)
		m := f.Mount(t, "/")
		sizes := []int{1, 3, 1000, 4096, 5000, 65536, 65537, 1 << 20}
		if p.RegMode == nfsclient.Bounce {
			sizes = []int{1, 3, 1000, 2048}
		}
		for _, op := range []fabric.Op{fabric.Write, fabric.Read} {
			for _, size := range sizes {
				size = min(size, m.NFS().WSize())
				r := f.Run(t, fabric.Load{Mount: m, Op: op, Size: size, Depth: 4, Calls: 12, FileSize: 2 << 20, Verify: true, Name: fmt.Sprint("f", size)})
				assert.EqualValues(t, 12*size, r.Bytes)
			}
		}
		wantUnbroken(t, f)
		t.Log(m.Negotiated())
	})
}

func TestOnDeviceMix(t *testing.T) {
	f := fabric.New(t, fabric.Params{Live: true})
	r := f.Run(t, fabric.Load{Op: fabric.Mix, ReadPercent: 50, Sizes: []int{512, 4096, 10000, 40000}, Depth: 16, Calls: 300, Files: 3, FileSize: 1 << 20, Random: true, Verify: true})
	assert.EqualValues(t, 300, r.Calls)
	wantUnbroken(t, f)
}

// TestOnDeviceTree copies a part of the sources of Go in and out; NFSRDMA_FULL_TREE=1 takes all.
func TestOnDeviceTree(t *testing.T) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no go command: %v", err)
	}
	src := os.DirFS(filepath.Join(strings.TrimSpace(string(out)), "src"))
	least := 5000
	if !long("NFSRDMA_FULL_TREE") {
		src, least = part(t, src, "encoding/xml", 150), 50
	}
	f := fabric.New(t, fabric.Params{Live: true})
	m := f.Mount(t, "/")
	m.CopyIn(t, src, "src")
	to := t.TempDir()
	require.NoError(t, m.NFS().CopyOut(bg, "src", to))
	files, size := compareTrees(t, src, os.DirFS(to))
	t.Logf("%d files, %d bytes", files, size)
	assert.Greater(t, files, least)
	wantUnbroken(t, f)
}

// TestOnDeviceReconnect breaks the connection under load: all that is answered is right.
func TestOnDeviceReconnect(t *testing.T) {
	f := fabric.New(t, fabric.Params{Live: true, Credits: 16, Client: func(c *nfsclient.Config) {
		c.ReconnectMin, c.ReconnectMax = time.Millisecond, 20*time.Millisecond
	}})
	m := f.Mount(t, "/")
	var done atomic.Bool
	wait := f.Go("breaker", func() {
		for i := 0; i < 20 && !done.Load(); i++ {
			if f.Sleep(bg, 20*time.Millisecond) != nil {
				return
			}
			m.NFS().Disconnect()
		}
	})
	r := f.Run(t, fabric.Load{Mount: m, Op: fabric.Mix, ReadPercent: 50, Size: 20000, Depth: 8, Calls: 300, FileSize: 1 << 20, Random: true, Verify: true})
	done.Store(true)
	require.NoError(t, wait(bg))
	assert.EqualValues(t, 300, r.Calls)
}

// TestOnDeviceConnects makes and ends many connections, some in the middle of a transfer; the fabric's Close
// finds objects that are left.
func TestOnDeviceConnects(t *testing.T) {
	n := 200
	f := fabric.New(t, fabric.Params{Live: true, Credits: 8, ServerCredits: 8})
	rng := rand.New(rand.NewPCG(1, 2))
	base := f.Server().Resources()
	for i := range n {
		m, err := f.Dial(bg, "/")
		require.NoError(t, err, "connection %d", i)
		if i%4 != 0 {
			require.NoError(t, m.NFS().Null(bg))
		}
		if i%8 == 1 {
			ctx, cancel := context.WithTimeout(bg, 10*time.Second)
			wait := f.Go("writer", func() { _ = m.NFS().WriteFile(ctx, "big", make([]byte, 1<<20), 0o644) })
			require.NoError(t, f.Sleep(bg, time.Duration(rng.IntN(3000))*time.Microsecond))
			m.Unmount(t)
			require.NoError(t, wait(bg))
			cancel()
			continue
		}
		m.Unmount(t)
	}
	assert.Eventually(t, func() bool {
		r := f.Server().Resources()
		return r.QP == base.QP && r.CQ == base.CQ && r.CMID == base.CMID
	}, 20*time.Second, 10*time.Millisecond, "%+v, at first %+v", f.Server().Resources(), base)
}
