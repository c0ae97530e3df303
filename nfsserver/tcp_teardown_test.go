package nfsserver_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// TestTCPTeardown ends server, connections or mounts while calls of every kind run, with little memory: nothing is left
// lent, no task, no slot.
func TestTCPTeardown(t *testing.T) {
	rounds := 24
	if raceEnabled {
		rounds = 8
	}
	for seed := range rounds {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { teardownTCP(t, rand.New(rand.NewPCG(uint64(seed), 1))) }) {
			return
		}
	}
}

func teardownTCP(t *testing.T, rng *rand.Rand) {
	mem := memfs.New(memfs.Options{RootMode: 0o777})
	var fs vfs.FS = mem
	if rng.IntN(2) == 0 {
		fs = vfs.Plain(mem)
	}
	srv, err := nfsserver.New(nfsserver.Config{
		TCP: []string{"127.0.0.1:0"}, Exports: []nfsserver.Export{{FS: fs}},
		Threads: 1 + rng.IntN(4), Credits: 1 + rng.IntN(8), MaxPayload: 256 << 10, PayloadMemory: 600 << 10,
	})
	require.NoError(t, err)
	const file = 1 << 20
	var wg sync.WaitGroup
	var mounts []*nfsclient.Mount
	done := make(chan int, 1000)
	for i := range 3 {
		m, err := nfsclient.New(bg, nfsclient.Config{Proto: nfsclient.TCP, Addr: srv.TCPAddrs()[0], Soft: true, Retrans: -1,
			ReconnectMin: time.Millisecond, ReconnectMax: time.Millisecond})
		require.NoError(t, err)
		mounts = append(mounts, m)
		name := fmt.Sprint("f", i)
		require.NoError(t, m.WriteFile(bg, name, make([]byte, file), 0o644))
		fh, _, err := m.LookupPath(bg, name)
		require.NoError(t, err)
		for k := range 3 {
			size := []int{100, 30_000, 256 << 10}[k]
			wg.Go(func() {
				buf := make([]byte, size)
				for n := 0; ; n++ {
					var err error
					if n%2 == 0 {
						_, err = m.Write(bg, fh, uint64(n*size%file), buf, nfsclient.UNSTABLE)
					} else {
						_, _, err = m.Read(bg, fh, uint64(n*size%file), buf)
					}
					if err != nil {
						return
					}
					select {
					case done <- n:
					default:
					}
				}
			})
		}
	}
	for range rng.IntN(60) {
		<-done
	}
	for i := range 1 + rng.IntN(3) {
		if rng.IntN(2) == 0 {
			srv.Disconnect()
		} else {
			mounts[i].Disconnect()
		}
	}
	closers := []func() error{srv.Close, mounts[0].Close, mounts[1].Close, mounts[2].Close}
	rng.Shuffle(len(closers), func(i, j int) { closers[i], closers[j] = closers[j], closers[i] })
	for _, f := range closers {
		assert.NoError(t, f())
	}
	wg.Wait()
	st := srv.Stats()
	assert.Zero(t, st.TCP.Open)
	assert.Equal(t, st.TCP.Accepted, st.TCP.Ended)
	assert.Zero(t, mem.Pinned(), "pages that are still lent")
	assert.NoError(t, mem.CheckConsistent())
}
