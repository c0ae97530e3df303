package fabric_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/nfsserver/vfs"
)

// TestFailNowInTask: it stops the test, wherever that waits.
func TestFailNowInTask(t *testing.T) {
	waits := map[string]func(f *fabric.Fabric, m *fabric.Mount, t fabric.TB, task func(context.Context) error){
		"in a sleep": func(f *fabric.Fabric, _ *fabric.Mount, t fabric.TB, _ func(context.Context) error) {
			if err := f.Sleep(bg, time.Minute); err != nil {
				t.FailNow()
			}
		},
		"for the task": func(_ *fabric.Fabric, _ *fabric.Mount, t fabric.TB, task func(context.Context) error) {
			if err := task(bg); err != nil {
				t.FailNow()
			}
		},
		"in calls": func(_ *fabric.Fabric, m *fabric.Mount, t fabric.TB, _ func(context.Context) error) {
			for {
				m.WriteFile(t, "b", data(300_000, 2))
				m.ReadFile(t, "b")
			}
		},
		"in a load": func(f *fabric.Fabric, _ *fabric.Mount, t fabric.TB, _ func(context.Context) error) {
			f.Run(t, fabric.Load{Op: fabric.Read, FileSize: 1 << 20, Time: time.Minute, Depth: 8})
		},
	}
	eachTime(t, func(t *testing.T, p fabric.Params) {
		p.Link = &fabric.RoCE25G
		for name, wait := range waits {
			t.Run(name, func(t *testing.T) {
				var went atomic.Bool
				var f *fabric.Fabric
				fake := runFake("TestX", func(t fabric.TB) {
					f = fabric.New(t, p)
					m := f.Mount(t, "/")
					m.WriteFile(t, "a", data(100_000, 1))
					for range 4 {
						f.Go("other", func() {
							for {
								if _, err := m.NFS().ReadFile(bg, "a"); err != nil {
									return
								}
							}
						})
					}
					task := f.Go("fatal", func() {
						_ = f.Sleep(bg, 2*time.Millisecond)
						t.Fatalf("this is it")
					})
					wait(f, m, t, task)
					went.Store(true)
				})
				assert.False(t, went.Load(), "the test went on")
				assert.True(t, fake.failed && fake.stopped)
				assert.Equal(t, []string{"this is it"}, fake.errors(), "nothing is reported on top of it")
				last := fake.lines[len(fake.lines)-1]
				assert.Contains(t, last, "run it again: ")
				assert.NoError(t, f.Close())
			})
		}
	})
}

// stopFS stops the test at the third WRITE.
type stopFS struct {
	vfs.FS
	t fabric.TB
	n atomic.Int32
}

func (s *stopFS) Write(ctx context.Context, id vfs.ID, off uint64, src []byte, stable bool, w *vfs.WCC) error {
	if s.n.Add(1) == 3 {
		s.t.Fatalf("third write")
	}
	return s.FS.Write(ctx, id, off, src, stable, w)
}

// TestFailNowInFileSystem: an nfsd thread runs the code that stops the test.
func TestFailNowInFileSystem(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		for _, p.Link = range []*fabric.Link{nil, &fabric.RoCE25G} {
			fake := runFake("TestX", func(t fabric.TB) {
				p.Storage = fabric.FileSystem("stop", &stopFS{FS: memfs.New(memfs.Options{RootMode: 0o777, Capacity: 1 << 30}), t: t})
				f := fabric.New(t, p)
				f.Run(t, fabric.Load{Op: fabric.Write, FileSize: 1 << 20, Depth: 8, Bytes: 64 << 20})
				t.Errorf("goes on")
			})
			assert.Equal(t, []string{"third write"}, fake.errors())
		}
	})
}

// TestFailNowInCaller: the test's own goroutine stops while tasks are in calls.
func TestFailNowInCaller(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		p.Link = &fabric.RoCE25G
		var ended atomic.Int32
		fake := runFake("TestX", func(t fabric.TB) {
			f := fabric.New(t, p)
			m := f.Mount(t, "/")
			m.WriteFile(t, "a", data(100_000, 1))
			for range 4 {
				f.Go("reader", func() {
					defer ended.Add(1)
					for {
						if _, err := m.NFS().ReadFile(bg, "a"); err != nil {
							return
						}
					}
				})
			}
			_ = f.Sleep(bg, time.Millisecond)
			m.ReadFile(t, "nowhere")
		})
		require.Len(t, fake.errors(), 1)
		assert.Equal(t, "open nowhere: LOOKUP \"nowhere\": NFS3ERR_NOENT", fake.errors()[0])
		assert.EqualValues(t, 4, ended.Load())
	})
}

// TestForgottenTask: a task that does not end with the calls is named.
func TestForgottenTask(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		if p.Live {
			t.Skip("it takes ten seconds")
		}
		f, err := fabric.Start(p)
		require.NoError(t, err)
		f.Go("sleeper", func() { _ = f.Sleep(bg, time.Hour) })
		f.Go("short sleeper", func() { _ = f.Sleep(bg, time.Second) })
		err = f.Close()
		assert.ErrorContains(t, err, "1 tasks of Go have not ended:\n\tsleeper: waits for sleep since 0s")
	})
}

func TestDeadlockIsReported(t *testing.T) {
	f, err := fabric.Start(fabric.Params{Link: &fabric.RoCE25G})
	require.NoError(t, err)
	m, err := f.Dial(bg, "/")
	require.NoError(t, err)
	require.NoError(t, m.NFS().Null(bg))
	ctx, cancel := f.WithCancel(bg)
	var waits [2]func(context.Context) error
	for i, name := range []string{"left", "right"} {
		waits[i] = f.Go(name, func() {
			_ = f.Sleep(ctx, 0) // waits[1-i] is set then
			_ = waits[1-i](ctx)
		})
	}
	err = waits[0](bg)
	var dead *fabric.DeadlockError
	require.ErrorAs(t, err, &dead)
	assert.Equal(t, "the end of task left", dead.Caller)
	all := strings.Join(dead.Tasks, "\n")
	for _, want := range []string{"left: waits for the end of task right since ", "right: waits for the end of task left since ", "nfsd: waits for a call to serve"} {
		assert.Contains(t, all, want)
		assert.ErrorContains(t, err, want)
	}
	cancel()
	assert.NoError(t, f.Close())
}

func TestTimeLimit(t *testing.T) {
	f, err := fabric.Start(fabric.Params{Link: &fabric.RoCE25G, TimeLimit: time.Second})
	require.NoError(t, err)
	m, err := f.Dial(bg, "/")
	require.NoError(t, err)
	require.NoError(t, f.NFSServer().Close())
	err = m.NFS().Null(bg) // a hard mount never gives up
	var limit *fabric.TimeLimitError
	require.ErrorAs(t, err, &limit)
	assert.NoError(t, f.Close())
}

// stuckFS does not come back from a READ.
type stuckFS struct {
	vfs.FS
	stuck func(context.Context) error
}

func (s *stuckFS) Read(ctx context.Context, _ vfs.ID, _ uint64, _ []byte, _ *vfs.Attr) (int, bool, error) {
	return 0, false, s.stuck(ctx)
}

// TestStuckServer: the client tries for ever, and the limit of time says who waits for what.
func TestStuckServer(t *testing.T) {
	fs := &stuckFS{FS: memfs.New(memfs.Options{RootMode: 0o777, Capacity: 1 << 30})}
	fake := runFake("TestX", func(t fabric.TB) {
		f := fabric.New(t, fabric.Params{Storage: fabric.FileSystem("stuck", fs), Link: &fabric.RoCE25G})
		ctx, cancel := f.WithCancel(bg)
		t.Cleanup(cancel) // before the fabric closes
		forever := f.Go("nothing", func() { _ = f.Sleep(ctx, 1000*time.Hour) })
		fs.stuck = forever
		f.Run(t, fabric.Load{Op: fabric.Read, FileSize: 4096})
	})
	require.True(t, fake.stopped)
	require.Len(t, fake.errors(), 1)
	for _, want := range []string{
		"virtual time has passed its limit of 1h0m0s: the caller waits for the load's calls\n",
		"nfsd: waits for the end of task nothing since ", "load read 0: waits for a reply (xid ",
	} {
		assert.Contains(t, fake.errors()[0], want)
	}
}

// TestReplayLines is what a failed test leaves behind, word by word.
func TestReplayLines(t *testing.T) {
	fail := func(p fabric.Params, name string) []string {
		return runFake(name, func(t fabric.TB) {
			f := fabric.New(t, p)
			m := f.Mount(t, "/")
			_ = m.NFS().Null(bg)
			t.Errorf("wrong")
		}).lines
	}
	assert.Equal(t, []string{"error wrong",
		"log fabric: seed 5, virtual time; run it again: NFSRDMA_SEED=5 NFSRDMA_TRACE=1 go test -count=1 -run '^TestX$/^a\\+b\\(c\\)$/^it.s$' example.org/nfsrdma/fabric",
	}, fail(fabric.Params{Seed: 5}, "TestX/a+b(c)/it's"))
	assert.Equal(t, []string{"error wrong",
		"log fabric: seed 6, live; run it again: NFSRDMA_SEED=6 NFSRDMA_TRACE=1 go test -count=1 -run '^TestX$' example.org/nfsrdma/fabric",
	}, fail(fabric.Params{Seed: 6, Live: true}, "TestX"))

	traced := fail(fabric.Params{Trace: true, Link: &fabric.RoCE25G}, "TestX")
	require.Greater(t, len(traced), 10)
	assert.LessOrEqual(t, len(traced), 2+40)
	all := strings.Join(traced, "\n")
	for _, want := range []string{"client > ", "client < ", "server ", "NULL", "us"} {
		assert.Contains(t, all, want)
	}

	fake := runFake("TestX", func(t fabric.TB) { fabric.New(t, fabric.Params{Trace: true}).Mount(t, "/") })
	assert.Empty(t, fake.lines, "a test that passes leaves nothing")
	fake = runFake("TestX", func(t fabric.TB) { fabric.New(t, fabric.Params{Threads: -1}) })
	assert.True(t, fake.stopped)
	assert.Equal(t, []string{"fabric: Threads (nfsd) is -1, must be 1 to 8192, threads, NFSD_MAXSERVS; 0 is the default"}, fake.errors())
}

// TestCloseInTask: a task cannot end the tasks, but its test still can.
func TestCloseInTask(t *testing.T) {
	f, err := fabric.Start(fabric.Params{})
	require.NoError(t, err)
	var inside error
	wait := f.Go("closer", func() { inside = f.Close() })
	require.NoError(t, wait(bg))
	assert.ErrorContains(t, inside, "called by a task")
	f.Mount(t, "/")
	assert.NoError(t, f.Close())
}

// TestLivelockIsReported: tasks that never let time go on end the test with their names, and Close still ends.
func TestLivelockIsReported(t *testing.T) {
	for name, spin := range map[string]func(f *fabric.Fabric){
		"in sleeps of no time": func(f *fabric.Fabric) { _ = f.Sleep(bg, 0) },
		"in calls that fail at once": func(f *fabric.Fabric) {
			ctx, cancel := context.WithCancel(bg)
			cancel()
			_ = f.Sleep(ctx, time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := runFake("TestX", func(t fabric.TB) {
				f := fabric.New(t, fabric.Params{Link: &fabric.RoCE25G, InstantLimit: 200_000})
				f.Mount(t, "/").WriteFile(t, "a", data(100_000, 1))
				f.Go("spinner", func() {
					for {
						spin(f)
					}
				})
				f.Run(t, fabric.Load{Op: fabric.Read, FileSize: 1 << 20, Time: time.Minute})
			})
			assert.True(t, fake.stopped)
			require.NotEmpty(t, fake.errors())
			assert.Contains(t, fake.errors()[0], "turns without time going on, while the caller waits for a reply (")
			assert.Contains(t, fake.errors()[0], "most of the last turns: task spinner (")
		})
	}
}

// TestStuckTaskIsReported: a task in a channel fails the test, and what does not end with Close is left behind.
func TestStuckTaskIsReported(t *testing.T) {
	c := make(chan struct{})
	left := make(chan struct{})
	fake := runFake("TestX", func(t fabric.TB) {
		f := fabric.New(t, fabric.Params{Link: &fabric.RoCE25G, TaskLimit: 100 * time.Millisecond})
		f.Go("forgetful", func() {
			defer close(left)
			_ = f.Sleep(bg, 1000*time.Hour)
			<-c
		})
		m := f.Mount(t, "/")
		m.WriteFile(t, "a", data(100_000, 1))
		t.Fatalf("another reason")
	})
	require.GreaterOrEqual(t, len(fake.errors()), 2)
	assert.Equal(t, "another reason", fake.errors()[0])
	assert.Contains(t, fake.errors()[1], `task "forgetful" has not come back to the scheduler for 100ms by the wall clock`)
	assert.Contains(t, fake.errors()[1], "fabric_test.TestStuckTaskIsReported")
	close(c)
	<-left
}
