package linuxclient

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/nfsrdma/nfsserver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// xprtFields are the values after "xprt: rdma" in mountstats (xprt_rdma_print_stats in net/sunrpc/xprtrdma/transport.c).
var xprtFields = strings.Fields(`port bind_count connect_count connect_time idle_time sends recvs bad_xids req_u bklog_u
	read_chunk_count write_chunk_count reply_chunk_count total_rdma_request total_rdma_reply
	pullup_copy_count fixup_copy_count hardway_register_count failed_marshal_count bad_reply_count nomsg_call_count
	mrs_recycled mrs_orphaned mrs_allocated local_inv_needed empty_sendctx_q reply_waits_for_send`)

type counts map[string]int64

// String gives those that are not zero, in the kernel's order.
func (c counts) String() string {
	var s []string
	for _, f := range xprtFields {
		if c[f] != 0 {
			s = append(s, fmt.Sprintf("%s=%d", f, c[f]))
		}
	}
	return strings.Join(s, " ")
}

// parseXprt reads the transport's line of the mount at dir.
func parseXprt(mountstats, dir string) (counts, error) {
	_, rest, ok := strings.Cut(mountstats, " mounted on "+dir+" with ")
	if !ok {
		return nil, fmt.Errorf("nothing mounted on %s", dir)
	}
	rest, _, _ = strings.Cut(rest, "\ndevice ")
	_, line, ok := strings.Cut(rest, "\txprt:\trdma ")
	if !ok {
		return nil, fmt.Errorf("no rdma transport")
	}
	line, _, _ = strings.Cut(line, "\n")
	values := strings.Fields(line)
	if len(values) < len(xprtFields) {
		return nil, fmt.Errorf("%d fields: %q", len(values), line)
	}
	c := counts{}
	for i, f := range xprtFields {
		n, err := strconv.ParseInt(values[i], 10, 64)
		if err != nil {
			return nil, err
		}
		c[f] = n
	}
	return c, nil
}

func TestParseXprt(t *testing.T) {
	stats := "device none mounted on /x with fstype tmpfs\n" +
		"device 10.9.0.1:/export mounted on /mnt with fstype nfs statvers=1.1\n" +
		"\txprt:\trdma 0 1 2 0 3 40 41 0 5 0 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22\n\tper-op statistics\n" +
		"device none mounted on /y with fstype proc\n"
	c, err := parseXprt(stats, "/mnt")
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 14, 15, 22}, []int64{c["connect_count"], c["failed_marshal_count"], c["bad_reply_count"], c["reply_waits_for_send"]})
	for _, dir := range []string{"/x", "/y", "/z"} {
		_, err = parseXprt(stats, dir)
		assert.Error(t, err, dir)
	}
}

func xprtStats(t *testing.T) counts {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountstats")
	require.NoError(t, err)
	c, err := parseXprt(string(b), mnt)
	require.NoError(t, err)
	return c
}

func mountOptions(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[1] == mnt {
			return f[3]
		}
	}
	require.Fail(t, "nothing mounted on "+mnt)
	return ""
}

// resources are the counts of RDMA objects in the kernel, of user space's and its own.
func resources(t *testing.T, dev string) string {
	t.Helper()
	return strings.TrimSpace(sh(t, "rdma", "resource", "show", dev))
}

// wantResources waits until there is what was before.
func wantResources(t *testing.T, dev, before string) {
	t.Helper()
	assert.Empty(t, eventually(10*time.Second, func() string {
		if now := resources(t, dev); now != before {
			return now
		}
		return ""
	}), "RDMA resources not given back; there were %s", before)
}

const (
	tracing       = "/sys/kernel/tracing"
	marshalFailed = "xprtrdma_marshal_failed"
)

// traceFailedMarshal has the kernel say why it fails to marshal.
func traceFailedMarshal(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(tracing + "/events"); err != nil {
		sh(t, "mount", "-t", "tracefs", "tracefs", tracing)
	}
	require.NoError(t, os.WriteFile(tracing+"/events/rpcrdma/"+marshalFailed+"/enable", []byte("1"), 0))
}

func clearTrace(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(tracing+"/trace", nil, 0o644))
}

var noMR = regexp.MustCompile(marshalFailed + `: .*ret=-11\b`)

// retriedMarshal counts the failures with EAGAIN since the trace was cleared.
func retriedMarshal(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(tracing + "/trace")
	require.NoError(t, err)
	return len(noMR.FindAll(b, -1))
}

// kernelLog is a place in the kernel's log.
type kernelLog struct {
	mark     string
	harmless []*regexp.Regexp
}

func markKernelLog(t *testing.T) *kernelLog {
	t.Helper()
	mark := "linuxclient: " + t.Name()
	require.NoError(t, os.WriteFile("/dev/kmsg", []byte(mark+"\n"), 0))
	return &kernelLog{mark: mark, harmless: slices.Clone(harmless)}
}

// harmless are messages that devices and mounts give as a matter of course.
var harmless = []*regexp.Regexp{
	regexp.MustCompile(`linuxclient: `),
	regexp.MustCompile(`speed is unknown, defaulting to`),
	regexp.MustCompile(`drop_caches: `),
	regexp.MustCompile(`iwpm_register_pid: Unable to send`), // no port mapper runs
	regexp.MustCompile(`hrtimer: interrupt took`),           // the emulator did not run for a while
}

// allow adds what the test brings about.
func (l *kernelLog) allow(pattern string) {
	l.harmless = append(l.harmless, regexp.MustCompile(pattern))
}

// since is the kernel's log since the mark.
func (l *kernelLog) since(t *testing.T) string {
	t.Helper()
	all := sh(t, "dmesg")
	i := strings.LastIndex(all, l.mark+"\n")
	require.GreaterOrEqual(t, i, 0, "the kernel's log ran over")
	return all[i+len(l.mark):]
}

// news are the lines since the mark that are not harmless.
func (l *kernelLog) news(t *testing.T) string {
	t.Helper()
	var news []string
	for line := range strings.Lines(l.since(t)) {
		if line = strings.TrimSpace(line); line != "" && !slices.ContainsFunc(l.harmless, func(r *regexp.Regexp) bool { return r.MatchString(line) }) {
			news = append(news, line)
		}
	}
	return strings.Join(news, "\n")
}

// refusal names the counters of what the server refused, dropped or could not do.
var refusal = regexp.MustCompile(`^(tcp_)?(bad_|err_|rpc_|dropped$|conn_rejected$)|^nfs_(badhandle|stale)$|^reply_no_room$|^sink_unregistered$|^drc_full$`)

// refusals are the server's counters of that kind that are not zero, less the expected.
func refusals(st *nfsserver.Stats, expected []string) string {
	var s []string
	for _, c := range st.Counters() {
		if c.Value != 0 && refusal.MatchString(c.Name) && !slices.Contains(expected, c.Name) {
			s = append(s, fmt.Sprintf("%s=%d", c.Name, c.Value))
		}
	}
	return strings.Join(s, " ")
}

func TestRefusals(t *testing.T) {
	var st nfsserver.Stats
	st.Transport.BadXID, st.Transport.Recv, st.TCP.Accepted, st.TCP.Stalled, st.ProgUnavail, st.NFSErrors = 1, 2, 3, 4, 5, 6
	assert.Equal(t, "bad_xid=1 tcp_bad_stalled=4", refusals(&st, []string{"rpc_prog_unavail"}))
}
