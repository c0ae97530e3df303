package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
)

// TestTeardown takes a fabric under load apart in an order, and at moments, that the seed tells.
func TestTeardown(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		seeds := share(200)
		if p.Live {
			seeds = 20
		}
		if long("NFSRDMA_LONG") {
			seeds *= 10
		}
		var st tornStats
		for seed := range uint64(seeds) {
			p := p
			p.Seed = seed + 1
			var err error
			if !assert.NotPanics(t, func() { err = tearDown(t, p, &st) }, "seed %d", p.Seed) || !assert.NoError(t, err, "seed %d", p.Seed) {
				return
			}
		}
		t.Logf("%d calls; tasks ended by: %v", st.calls, st.causes)
		assert.Greater(t, int(st.calls), 10*seeds)
		assert.NotEmpty(t, st.causes)
	})
}

// tornStats are over all seeds.
type tornStats struct {
	mu     sync.Mutex
	calls  int64
	causes map[string]int
}

func (s *tornStats) ended(calls int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.causes == nil {
		s.causes = map[string]int{}
	}
	s.calls += calls
	cause := err.Error()
	if errors.Is(err, nfsclient.ErrClosed) {
		cause = nfsclient.ErrClosed.Error()
	}
	s.causes[cause]++
}

// tearDown runs one seed. Its error is what Close finds left.
func tearDown(t *testing.T, p fabric.Params, st *tornStats) error {
	rng := rand.New(rand.NewPCG(p.Seed, 2))
	links := []*fabric.Link{nil, &fabric.RoCE100G, &fabric.RoCE25G, &fabric.IBSDR, lossy()}
	p.Link = links[rng.IntN(len(links))]
	p.RegMode = modes[rng.IntN(len(modes))]
	p.Credits, p.ServerCredits, p.Threads = 1+rng.IntN(16), 1+rng.IntN(16), 1+rng.IntN(4)
	most := 500 * time.Microsecond
	if p.Live {
		most = 40 * time.Millisecond
	}
	f, err := fabric.Start(p)
	require.NoError(t, err)
	var mounts []*fabric.Mount
	for range 3 {
		m, err := f.Dial(bg, "/")
		require.NoError(t, err)
		mounts = append(mounts, m)
	}
	const tasks = 16
	var ended atomic.Int32
	for i := range tasks {
		m := mounts[i%len(mounts)].NFS()
		f.Go(fmt.Sprintf("load %d", i), func() {
			defer ended.Add(1)
			rng := rand.New(rand.NewPCG(p.Seed, uint64(100+i)))
			for calls := int64(1); ; calls++ {
				if err := someCall(f, m, rng, i); err != nil && !mayGoOn(err) {
					st.ended(calls, err)
					return
				}
			}
		})
	}
	if rng.IntN(2) == 0 {
		at := moment(rng, most)
		f.Go("another mount", func() {
			if f.Sleep(bg, at) != nil {
				return
			}
			if m, err := f.Dial(bg, "/"); err == nil {
				_ = m.NFS().Null(bg)
			}
		})
	}
	if err := f.Sleep(bg, moment(rng, most)); err != nil {
		return errors.Join(err, f.Close())
	}
	acts := []func(){
		func() { mounts[0].NFS().Disconnect() },
		func() { mounts[1].NFS().Disconnect() },
		func() { f.NFSServer().Disconnect() },
		func() { assert.NoError(t, mounts[1].NFS().Close()) },
		func() { assert.NoError(t, mounts[2].NFS().Close()) },
		func() { assert.NoError(t, f.NFSServer().Close()) },
		func() { assert.NoError(t, f.Client().RemoveDevice()) },
		func() { assert.NoError(t, f.Server().RemoveDevice()) },
	}
	for _, k := range rng.Perm(len(acts))[:rng.IntN(4)] {
		if rng.IntN(2) == 0 {
			acts[k]()
		} else {
			f.Go(fmt.Sprintf("end %d", k), acts[k])
		}
		if err := f.Sleep(bg, moment(rng, most)); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	err = f.Close()
	if n := ended.Load(); n != tasks {
		err = errors.Join(err, fmt.Errorf("%d of %d tasks have ended", n, tasks))
	}
	return err
}

// moment is a time up to most, short ones more often.
func moment(rng *rand.Rand, most time.Duration) time.Duration {
	x := rng.Float64()
	return time.Duration(x * x * x * float64(most))
}

// mayGoOn says whether a task goes on after this error: the others end it.
func mayGoOn(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrExist)
}

// someCall makes one of several calls, now and then with little time for it.
func someCall(f *fabric.Fabric, m *nfsclient.Mount, rng *rand.Rand, task int) error {
	ctx := bg
	if rng.IntN(8) == 0 {
		c, cancel := f.WithTimeout(bg, moment(rng, 200*time.Microsecond))
		defer cancel()
		ctx = c
	}
	name := fmt.Sprintf("f%d", rng.IntN(6))
	switch rng.IntN(8) {
	case 0:
		return m.WriteFile(ctx, name, make([]byte, rng.IntN(100_000)), 0o644)
	case 1:
		_, err := m.ReadFile(ctx, name)
		return err
	case 2:
		return m.MkdirAll(ctx, fmt.Sprintf("d%d/e/f", task), 0o755)
	case 3:
		return m.RemoveAll(ctx, fmt.Sprintf("d%d", task))
	case 4:
		_, err := m.Stat(ctx, name)
		return err
	case 5: // on a direct wire, time goes on only here
		return f.Sleep(ctx, moment(rng, 200*time.Microsecond))
	case 6:
		file, err := m.OpenFile(ctx, name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		_, err = file.WriteAt(make([]byte, rng.IntN(5000)), int64(rng.IntN(50_000)))
		return errors.Join(err, file.Close())
	default:
		return m.Null(ctx)
	}
}

func TestRemovedDevice(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		f, err := fabric.Start(p)
		require.NoError(t, err)
		m, err := f.Dial(bg, "/", func(c *nfsclient.Config) { c.Soft, c.Retrans, c.ReconnectMin = true, -1, time.Millisecond })
		require.NoError(t, err)
		require.NoError(t, m.NFS().Null(bg))
		require.NoError(t, f.Client().RemoveDevice())
		require.ErrorIs(t, m.NFS().Null(bg), nfsclient.ErrTimedOut)
		_, err = f.Dial(bg, "/")
		require.ErrorIs(t, err, verbs.ErrClosed)
		require.NoError(t, f.Close())
	})
}
