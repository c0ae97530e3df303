package fabric_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs/softroce"
)

// TestOneSeedOneTrace runs 64 tasks that contend for files, a lock, slots, credits and threads, over a link that
// loses packets, a hundred times.
func TestOneSeedOneTrace(t *testing.T) {
	want := contend(t, 7, fabric.Params{})
	t.Logf("%v", want)
	for i := range share(99) {
		require.Equal(t, want, contend(t, 7, fabric.Params{}), "run %d", i+2)
	}
	other := contend(t, 8, fabric.Params{})
	assert.NotEqual(t, want.fingerprint, other.fingerprint)
	assert.NotEqual(t, want.clientDevice, other.clientDevice)
}

// TestOneSeedOneTraceInEachMode: nothing depends on where buffers lie, with as few registrations kept as to evict.
func TestOneSeedOneTraceInEachMode(t *testing.T) {
	for _, per := range []fabric.Personality{softroce.RoCE, softroce.MT25208} {
		for _, mode := range modes {
			p := fabric.Params{Personality: per, RegMode: mode, RegTime: time.Microsecond, RegPageTime: 100 * time.Nanosecond,
				InvTime: 300 * time.Nanosecond, Client: func(c *nfsclient.Config) { c.PinBytes = 20_000 }}
			want := contend(t, 7, p)
			for i := range 2 {
				require.Equal(t, want, contend(t, 7, p), "%s, %v, run %d", per.Name, mode, i+2)
			}
		}
	}
}

// traced is what must be equal.
type traced struct {
	fingerprint                                uint64
	now                                        time.Duration
	client, server, clientDevice, serverDevice string
	content                                    uint64
}

func contend(t *testing.T, seed uint64, p fabric.Params) traced {
	t.Helper()
	p.Seed, p.Link, p.Credits, p.ServerCredits, p.Threads = seed, lossy(), 8, 6, 3
	p.Storage = fabric.Memory().WithInodeLock(5*time.Microsecond, 200)
	f, err := fabric.Start(p)
	require.NoError(t, err)
	var mounts []*fabric.Mount
	for range 4 {
		m, err := f.Dial(bg, "/")
		require.NoError(t, err)
		mounts = append(mounts, m)
	}
	var waits []func(context.Context) error
	for i := range 64 {
		m := mounts[i%len(mounts)].NFS()
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		waits = append(waits, f.Go(fmt.Sprintf("task %d", i), func() {
			own := fmt.Sprintf("own%d", i%16)
			assert.NoError(t, m.WriteFile(bg, own, data(1+rng.IntN(8000), byte(i)), 0o644))
			shared, err := m.OpenFile(bg, "shared", os.O_RDWR|os.O_CREATE, 0o644)
			if !assert.NoError(t, err) {
				return
			}
			_, err = shared.WriteAt(data(3000, byte(i)), int64(i)*1000)
			assert.NoError(t, err)
			assert.NoError(t, shared.Close())
			_, err = m.ReadFile(bg, own)
			assert.NoError(t, err)
			// Whoever makes the directory holds the lock.
			for m.FS(bg).Mkdir("lock", 0o755) != nil {
				assert.NoError(t, f.Sleep(bg, time.Duration(rng.IntN(2000))*time.Microsecond))
			}
			assert.NoError(t, m.FS(bg).Remove("lock"))
		}))
	}
	waitAll(t, waits)
	b, err := mounts[0].NFS().ReadFile(bg, "shared")
	require.NoError(t, err)
	h := fnv.New64a()
	h.Write(b)
	out := traced{f.Fingerprint(), f.Now(), f.Client().Counters().String(), f.Server().Counters().String(),
		f.Client().Device().String(), f.Server().Device().String(), h.Sum64()}
	require.NoError(t, f.Close())
	return out
}
