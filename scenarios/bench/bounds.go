package bench

import (
	"math/rand/v2"
	"sync"
	"time"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// memcpyRate copies pieces from one area of FileSize to another, bytes a second
// of one core.
func memcpyRate(size int, d time.Duration) float64 {
	src, dst := make([]byte, FileSize), make([]byte, FileSize)
	for i := 0; i < FileSize; i += 4096 {
		src[i], dst[i] = 1, 1
	}
	pass := func() {
		for off := 0; off < FileSize; off += size {
			copy(dst[off:off+size], src[off:off+size])
		}
	}
	pass()
	n := 0
	t0 := time.Now()
	for time.Since(t0) < d {
		pass()
		n++
	}
	return float64(n) * FileSize / time.Since(t0).Seconds()
}

// engineRate is how many pieces of 4 KiB a second the least of engines moves: the
// poster itself copies from a random place, adds a completion to a queue and takes
// it off, each under a lock. No key, packet or order is looked at.
func engineRate(d time.Duration) float64 {
	src, dst := make([]byte, FileSize), make([]byte, FileSize)
	for i := 0; i < FileSize; i += 4096 {
		src[i], dst[i] = 1, 1
	}
	var mu sync.Mutex
	var ring [64]verbs.WC
	var head, tail uint64
	var wc verbs.WC
	rng := rand.New(rand.NewPCG(1, 1))
	n := 0
	t0 := time.Now()
	for ; n%1024 != 0 || time.Since(t0) < d; n++ {
		off := int(rng.Uint32N(FileSize/4096)) * 4096
		copy(dst[off:off+4096], src[off:off+4096])
		mu.Lock()
		ring[tail%64] = verbs.WC{ID: uint64(n), ByteLen: 4096}
		tail++
		mu.Unlock()
		mu.Lock()
		wc = ring[head%64]
		head++
		mu.Unlock()
	}
	if wc.ID != uint64(n-1) {
		panic("bench: the engine lost a completion")
	}
	return float64(n) / time.Since(t0).Seconds()
}

// deviceRate is how many RDMA WRITEs of 4 KiB with a completion each the device
// does a second when one goroutine posts and polls.
func deviceRate(d time.Duration) (float64, error) {
	s := sched.NewLive(1)
	defer s.Close()
	rate := 0.0
	err := softroce.WithPair(s, FileSize, func(p *softroce.Pair) error {
		wr := [1]verbs.SendWR{{Op: verbs.OpRDMAWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{{LKey: p.Local.LKey(), Length: 4096}}, RKey: p.Remote.RKey()}}
		var wc [4]verbs.WC
		rng := rand.New(rand.NewPCG(1, 1))
		n := 0
		t0 := time.Now()
		for ; n%1024 != 0 || time.Since(t0) < d; n++ {
			off := uint64(rng.Uint32N(FileSize/4096)) * 4096
			wr[0].SGEs[0].Addr = p.Local.Addr() + off
			wr[0].RemoteAddr = p.Remote.Addr() + off
			if _, err := p.QP.PostSend(wr[:]); err != nil {
				return err
			}
			for {
				k, err := p.CQ.Poll(wc[:])
				if err != nil {
					return err
				}
				if k > 0 {
					if wc[0].Status != verbs.Success {
						return &verbs.WCError{Status: wc[0].Status, Op: wc[0].Op}
					}
					break
				}
			}
		}
		rate = float64(n) / time.Since(t0).Seconds()
		return nil
	})
	return rate, err
}
