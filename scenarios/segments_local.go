package scenarios

import (
	"context"
	"fmt"
	"math"

	"example.org/nfsrdma/internal/sched"
)

// segLocal are the times of a local write on the reported server, in ms for each MB (10^6 bytes).
type segLocal struct {
	copyTime  float64 // into the page cache under i_mutex; reported: 47.1 s for 16 GiB by one writer
	disk      float64 // of the array for one stream; fitted to the N files column
	perStream float64 // more for ln N streams: seeks between them; fitted likewise
	shared    float64 // share of that which one file pays inside i_mutex; fitted to one file, 64 writers
}

var segLocalTimes = segLocal{copyTime: 2.742, disk: 0.766, perStream: 0.48, shared: 0.8}

// segLocalReported are seconds for 16 GiB in pieces of 1 MiB, three runs each.
var segLocalReported = []struct {
	writers       int
	oneFile, each [3]float64
}{
	{1, [3]float64{47.135, 47.190, 47.004}, [3]float64{47.135, 47.190, 47.004}},
	{4, [3]float64{52.993, 56.458, 55.767}, [3]float64{24.162, 24.364, 24.938}},
	{16, [3]float64{66.008, 63.526, 61.058}, [3]float64{36.945, 36.373, 36.260}},
	{64, [3]float64{79.917, 80.216, 75.971}, [3]float64{47.441, 47.415, 47.185}},
}

const (
	segLocalPiece  = 1 << 20
	segLocalPieces = 16 << 10 // of 16 GiB
	segLocalRun    = 1 << 10  // of them are run; the time is scaled
	segLocalDirty  = 64       // pieces in the page cache that are not on disk; assumed
)

// seconds runs the writers in virtual time: each takes its file's i_mutex to copy a piece, then waits for room among the
// dirty pages, which the array writes one after the other.
func (k segLocal) seconds(writers int, oneFile bool) (float64, error) {
	s := sched.NewVirtual(1)
	ctx := context.Background()
	perMB := func(ms float64) sched.Duration {
		return sched.Duration(ms * segLocalPiece / 1e6 * float64(sched.Millisecond))
	}
	streams := k.perStream * math.Log(float64(writers))
	hold := perMB(k.copyTime)
	if oneFile {
		hold = perMB(k.copyTime + k.shared*streams)
	}
	write := perMB(k.disk + streams)
	room := s.NewSem("room for a dirty piece", segLocalDirty)
	dirty := sched.NewQueue[int](s, "a dirty piece")
	all := s.NewGroup("the writers and the array")
	locks := make([]*sched.Mutex, writers)
	for i := range locks {
		locks[i] = s.NewMutex("an i_mutex")
	}
	failed := make([]error, writers+1)
	for i := range writers {
		lock := locks[i]
		if oneFile {
			lock = locks[0]
		}
		all.Go("writer", func() {
			for p := i; p < segLocalRun && failed[i] == nil; p += writers {
				if failed[i] = lock.Lock(ctx); failed[i] != nil {
					return
				}
				failed[i] = s.Sleep(ctx, hold)
				lock.Unlock()
				if failed[i] == nil {
					failed[i] = room.Acquire(ctx, 1)
				}
				dirty.Push(p)
			}
		})
	}
	all.Go("array", func() {
		for range segLocalRun {
			if _, failed[writers] = dirty.Pop(ctx); failed[writers] != nil {
				return
			}
			if failed[writers] = s.Sleep(ctx, write); failed[writers] != nil {
				return
			}
			room.Release(1)
		}
	})
	err := all.Wait(ctx)
	end := s.Now()
	for _, e := range append(failed, s.Close()) {
		if err == nil {
			err = e
		}
	}
	return sched.Duration(end).Seconds() * segLocalPieces / segLocalRun, err
}

// local adds the local writes of the server, without NFS.
func (s *segReport) local() error {
	for _, r := range segLocalReported {
		for _, oneFile := range []bool{true, false} {
			files, reported := "1", r.oneFile
			if !oneFile {
				files, reported = fmt.Sprint(r.writers), r.each
			}
			if !oneFile && r.writers == 1 {
				continue // the same
			}
			v, err := segLocalTimes.seconds(r.writers, oneFile)
			if err != nil {
				return err
			}
			for run, want := range reported {
				p := map[string]string{"writers": fmt.Sprint(r.writers), "files": files, "run": fmt.Sprint(run + 1)}
				s.add(band("local write, 16 GiB", p, value(want), v, want*0.92, want*1.08, "s"))
			}
		}
	}
	// Directions, as reported and with each fitted time 20 % either way.
	for _, c := range []struct {
		name string
		k    segLocal
	}{
		{"", segLocalTimes},
		{"disk x0.8", segLocal{2.742, 0.766 * 0.8, 0.48, 0.8}}, {"disk x1.2", segLocal{2.742, 0.766 * 1.2, 0.48, 0.8}},
		{"stream x0.8", segLocal{2.742, 0.766, 0.48 * 0.8, 0.8}}, {"stream x1.2", segLocal{2.742, 0.766, 0.48 * 1.2, 0.8}},
		{"shared x0.8", segLocal{2.742, 0.766, 0.48, 0.64}}, {"shared x1.2", segLocal{2.742, 0.766, 0.48, 0.96}},
	} {
		var one, each [4]float64
		for i, n := range []int{1, 4, 16, 64} {
			var err error
			if one[i], err = c.k.seconds(n, true); err == nil {
				each[i], err = c.k.seconds(n, false)
			}
			if err != nil {
				return err
			}
		}
		p := map[string]string{}
		if c.name != "" {
			p["perturbed"] = c.name
		}
		least := func(v [4]float64, from int) float64 { // ratio of neighbours
			x := inf
			for i := from; i < 3; i++ {
				x = min(x, v[i+1]/v[i])
			}
			return x
		}
		s.add(band("local, step, one file", p, nil, least(one, 0), 1.0001, inf, ""))
		s.add(band("local, step, N files", p, nil, least(each, 1), 1.0001, inf, ""))
		s.add(band("local, 64 files/one", p, nil, each[3]/each[0], 0.8, 1.25, ""))
	}
	return nil
}
