package verbstest_test

import (
	"fmt"
	"strings"
	"testing"

	"example.org/nfsrdma/verbs/softroce"
	"example.org/nfsrdma/verbs/verbstest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mandatory are the verbs that no device may lack, each with a check of it.
var mandatory = []struct{ verb, check, named string }{
	{"AllocPD", "pd/device", "AllocPD"},
	{"RegMR", "rights/write-without-any", "RegMR"},
	{"AllocMR", "pd/keys-unique", "AllocMR"},
	{"CreateCQ", "cq/poll-empty", "CreateCQ"},
	{"Listen", "cm/listener-address", "Listen"},
	{"Resolve", "cm/connect-without-queue-pair", "Resolve"},
	{"ID.CreateQP", "busy/id", "ID.CreateQP"},
	{"Connect", "cm/private-data", "Connect"},
	{"Listener.Accept", "cm/reject", "Listener.Accept"},
	{"ID.Accept", "readdepth/one-at-a-time", "ID.Accept"},
	{"PostRecv", "order/receives", "PostRecv"},
	{"Poll", "send/sizes", "Poll"},
	{"Wait", "cq/wait", "Wait"},
	{"SEND", "send/no-sge", "PostSend of SEND"},
	{"RDMA_WRITE", "write/1MiB", "PostSend of RDMA_WRITE"},
	{"RDMA_READ", "read/1MiB", "PostSend of RDMA_READ"},
	{"SEND_WITH_IMM", "imm/send", "PostSend of SEND_WITH_IMM"}, // not on iWARP
	{"REG_MR", "fastreg/zero-based", "PostSend of REG_MR"},     // promised by the capabilities
}

// TestMandatoryVerbs: a verb that no device may lack fails its checks by name, and skips none.
func TestMandatoryVerbs(t *testing.T) {
	for _, m := range mandatory {
		t.Run(m.verb, func(t *testing.T) {
			t.Parallel()
			r := record(t, find(t, m.check), &fault{missing: []string{m.verb}})
			require.False(t, r.skipped, "%s was skipped: %q", m.check, r.log)
			require.True(t, r.failed, "%s passes without %s", m.check, m.verb)
			require.Contains(t, strings.Join(r.log, "\n"), m.named)
		})
	}
}

// TestImmOnIWARP: immediate data, which iWARP may lack, skips there.
func TestImmOnIWARP(t *testing.T) {
	r := recordOn(t, softroce.T310, find(t, "imm/send"), &fault{missing: []string{"SEND_WITH_IMM"}})
	require.True(t, r.skipped)
	require.Contains(t, strings.Join(r.log, "\n"), "needs immediate data")
	r = recordOn(t, softroce.T310, find(t, "send/no-sge"), &fault{missing: []string{"SEND"}})
	require.True(t, r.failed && !r.skipped, "%q", r.log)
}

// TestStub: a device that supports nothing, but says that it does, passes no check that uses it.
func TestStub(t *testing.T) {
	stub := fault{missing: []string{"AllocPD", "CreateCQ", "Listen", "Resolve"}}
	unused := map[string]bool{"attr/sane": true, "attr/counters-named-once": true} // they use no verb
	for _, c := range verbstest.Checks() {
		r := record(t, c, &stub)
		log := strings.Join(r.log, "\n")
		assert.False(t, r.skipped, "%s: %s", c.Name, log)
		assert.Equal(t, !unused[c.Name], r.failed, "%s: %s", c.Name, log)
	}
}

// TestNothingRuns: an environment that lacks all that it may lack runs a check of each theme
// that is not optional, and a run that skips one of those themes fails.
func TestNothingRuns(t *testing.T) {
	optional := 0
	themes := map[string][]verbstest.Check{}
	for _, c := range verbstest.Checks() {
		theme, _, _ := strings.Cut(c.Name, "/")
		themes[theme] = append(themes[theme], c)
	}
	judge := func(skipped func(c verbstest.Check) bool) *recorder {
		r := &recorder{}
		y := verbstest.NewTally(verbstest.Checks())
		for _, c := range verbstest.Checks() {
			y.Done(c, skipped(c))
		}
		y.Judge(r)
		return r
	}
	require.False(t, judge(func(c verbstest.Check) bool { return len(c.Needs) > 0 }).failed,
		"a theme that is not optional is of checks with Needs only")
	for theme, checks := range themes {
		r := judge(func(c verbstest.Check) bool { return strings.HasPrefix(c.Name, theme+"/") })
		if !r.failed {
			optional++
			continue
		}
		require.Equal(t, []string{fmt.Sprintf("all %d checks of %s were skipped: no device may lack it", len(checks), theme)}, r.log)
	}
	require.Equal(t, 12, optional)
	require.True(t, judge(func(verbstest.Check) bool { return true }).failed)

	r := &recorder{} // of a theme that go test -run leaves out in part
	y := verbstest.NewTally(verbstest.Checks())
	y.Done(themes["rights"][0], true)
	y.Judge(r)
	require.False(t, r.failed, "%q", r.log)
}
