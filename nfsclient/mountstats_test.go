package nfsclient_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
)

// parsed reads the mount's statistics with the parser that node_exporter has.
func parsed(t *testing.T, m *nfsclient.Mount) (*procfs.Mount, *procfs.MountStatsNFS, string) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, m.MountStats(&b))
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "1"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1", "mountstats"), append(b.Bytes(), b.Bytes()...), 0o600))
	fs, err := procfs.NewFS(dir)
	require.NoError(t, err)
	p, err := fs.Proc(1)
	require.NoError(t, err)
	all, err := p.MountStats()
	require.NoError(t, err, b.String())
	require.Len(t, all, 2, "one mount after the other")
	require.Equal(t, all[0], all[1])
	st, ok := all[0].Stats.(*procfs.MountStatsNFS)
	require.True(t, ok)
	return all[0], st, b.String()
}

func parsedOp(t *testing.T, st *procfs.MountStatsNFS, name string) procfs.NFSOperationStats {
	t.Helper()
	for _, o := range st.Operations {
		if o.Operation == name {
			return o
		}
	}
	require.Fail(t, "no such operation", name)
	return procfs.NFSOperationStats{}
}

// cpuCost makes each reply take 5 ms.
func cpuCost(c *nfsclient.Config) {
	c.CPUCost = nfsclient.CPUCost{SoftIRQ: 2 * time.Millisecond, Wake: 3 * time.Millisecond}
}

func TestMountStats(t *testing.T) {
	e := newEnv(t, client(cpuCost), client(func(c *nfsclient.Config) { c.Credits, c.RSize, c.WSize = 2, 64<<10, 32<<10 }))
	require.NoError(t, e.m.WriteFile(bg, "f", pattern(32<<10, 1), 0o644))
	fh, _, err := e.m.LookupPath(bg, "f")
	require.NoError(t, err)
	_, err = e.m.Lookup(bg, e.m.Root(), "missing")
	require.Error(t, err)
	// Six at once on two slots: the second pair waits for 5 ms, the third for 10.
	g := e.s.NewGroup("readers")
	for range 6 {
		g.Go("reader", func() {
			_, _, err := e.m.Read(bg, fh, 0, make([]byte, 10_000))
			assert.NoError(t, err)
		})
	}
	require.NoError(t, g.Wait(bg))
	require.NoError(t, e.s.Sleep(bg, 3*sched.Second))

	m, st, text := parsed(t, e.m)
	assert.Equal(t, "server:/", m.Device)
	assert.Equal(t, "/", m.Mount)
	assert.Equal(t, "nfs", m.Type)
	assert.Equal(t, "1.1", st.StatVersion)
	assert.Equal(t, 3*time.Second, st.Age)
	for k, v := range map[string]string{"vers": "3", "proto": "rdma", "rsize": "65536", "wsize": "32768", "hard": "", "port": "20049", "timeo": "600", "retrans": "2", "sec": "sys"} {
		assert.Equal(t, v, st.Opts[k], k)
		assert.Contains(t, st.Opts, k)
	}
	assert.Equal(t, procfs.NFSBytesStats{DirectRead: 60_000, ReadTotal: 60_000, DirectWrite: 32 << 10, WriteTotal: 32 << 10}, st.Bytes)

	require.Len(t, st.Operations, 22)
	read := parsedOp(t, st, "READ")
	assert.Equal(t, procfs.NFSOperationStats{Operation: "READ", Requests: 6, Transmissions: 6,
		BytesSent: read.BytesSent, BytesReceived: read.BytesReceived,
		CumulativeQueueMilliseconds: 30, CumulativeTotalResponseMilliseconds: 30, CumulativeTotalRequestMilliseconds: 60}, read)
	assert.Greater(t, read.BytesReceived, uint64(60_000))
	assert.Less(t, read.BytesReceived, uint64(6*10_200))
	assert.Less(t, read.BytesSent, uint64(6*200))
	write := parsedOp(t, st, "WRITE")
	assert.EqualValues(t, 1, write.Requests)
	assert.Greater(t, write.BytesSent, uint64(32<<10))
	assert.EqualValues(t, 5, write.CumulativeTotalRequestMilliseconds)
	lookup := parsedOp(t, st, "LOOKUP")
	assert.EqualValues(t, 2, lookup.Errors, "missing, and f before it was made")
	assert.Zero(t, parsedOp(t, st, "MKNOD").Requests)
	assert.EqualValues(t, 1, parsedOp(t, st, "FSINFO").Requests, "that of the mount")

	// The line of the transport: the kernel's order.
	fields := xprtFields(t, text)
	assert.Len(t, fields, 1+27)
	for i, name := range map[int]string{2: "bind_count", 3: "connect_count", 6: "sends", 7: "recvs", 10: "bklog_u", 11: "read_chunk_count",
		12: "write_chunk_count", 14: "total_rdma_request", 15: "total_rdma_reply", 24: "mrs_allocated", 25: "local_inv_needed"} {
		assert.Equal(t, strconv.Itoa(e.counter(name)), fields[i], name)
	}
	require.Len(t, st.Transport, 1)
	x := st.Transport[0]
	assert.EqualValues(t, e.counter("sends"), x.Sends)
	assert.EqualValues(t, e.counter("recvs"), x.Receives)
	assert.EqualValues(t, 4, x.CumulativeBacklog)
	assert.EqualValues(t, 1, x.ReadChunkCount)
	assert.EqualValues(t, 6, x.WriteChunkCount)
}

func xprtFields(t *testing.T, text string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\txprt:\t")
	require.True(t, ok)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
}

// A call that is sent again counts once, with both of its transmissions.
func TestOpStatsOfRetransmission(t *testing.T) {
	e := newEnv(t, client(cpuCost))
	g := e.s.NewGroup("a caller")
	g.Go("caller", func() { assert.NoError(t, e.m.Null(bg)) })
	require.NoError(t, e.s.Sleep(bg, sched.Millisecond))
	e.m.Disconnect()
	require.NoError(t, g.Wait(bg))
	o := e.m.OpStats()[0]
	assert.Equal(t, "NULL", o.Op)
	assert.EqualValues(t, 1, o.Ops)
	assert.EqualValues(t, 2, o.Transmissions)
	assert.Equal(t, o.Execute, o.Queue+o.RTT)
	assert.Equal(t, 5*time.Millisecond, o.RTT, "since it was sent last")
	assert.Zero(t, o.Errors)

	// One that its caller gives up has failed, without a reply.
	ctx, cancel := e.s.WithTimeout(bg, sched.Millisecond)
	defer cancel()
	_, err := e.m.GetAttr(ctx, e.m.Root())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	o = e.m.OpStats()[1]
	assert.EqualValues(t, 1, o.Errors)
	assert.Zero(t, o.BytesReceived)
	assert.Equal(t, time.Millisecond, o.Execute)
}

func TestMountStatsOverTCP(t *testing.T) {
	srv, err := nfsserver.New(nfsserver.Config{TCP: []string{"127.0.0.1:0"}, Exports: []nfsserver.Export{{FS: memfs.New(memfs.Options{RootMode: 0o777})}}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	m, err := nfsclient.New(bg, nfsclient.Config{Proto: nfsclient.TCP, Addr: srv.TCPAddrs()[0], Soft: true, Cred: nfsclient.Cred{None: true}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, m.Close()) }()
	require.NoError(t, m.WriteFile(bg, "f", pattern(1000, 1), 0o644))
	_, st, text := parsed(t, m)
	assert.Len(t, xprtFields(t, text), 1+13)
	assert.Equal(t, "tcp", st.Opts["proto"])
	assert.Contains(t, st.Opts, "soft")
	assert.Contains(t, text, "\tsec:\tflavor=0\n")
	assert.EqualValues(t, 128, st.Transport[0].MaximumRPCSlotsUsed)
	write := parsedOp(t, st, "WRITE")
	assert.EqualValues(t, 1, write.Transmissions)
	assert.Greater(t, write.BytesSent, uint64(1000))
	for _, o := range m.OpStats() {
		assert.LessOrEqual(t, o.Queue+o.RTT, o.Execute, o.Op)
		if o.Ops > 0 {
			assert.Positive(t, o.RTT, o.Op)
		}
	}
}
