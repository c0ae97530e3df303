package conformance

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kernelColumns are the saved runs, as files of testdata: their titles in kernel.md, and what is known.
var kernelColumns = []struct {
	of, device, title string
	known             *Known
}{
	{"linux-6.1", "rxe", "Linux 6.1 server, rxe", &Linux61},
	{"linux-6.1", "siw", "Linux 6.1 server, siw", &Linux61},
	{"linux-6.1-client", "rxe", "Linux 6.1 client, rxe", &Linux61Client},
	{"linux-6.1-client", "siw", "Linux 6.1 client, siw", &Linux61Client},
}

const kernelTable = "kernel.md"

const tableHead = `# The kernel's NFS server and client beside ours

The rules of RPC-over-RDMA that NFS version 3 can show, checked on the embedded server and client (in virtual time), and on the kernel's
server and client in the guest, over soft-RoCE (rxe) and soft-iWARP (siw). ` + "`make kernel-table`" + ` makes this file; the suites ` + "`conformance`" + ` and
` + "`conformanceclient`" + ` of ` + "`make test-rxe`" + ` fail if the kernel does otherwise. A rule is *proved* if its checks hold, *differs* if all that they found is explained below; *-* binds the other end, or has
no check that another server or client can be asked.

`

// saved gives the committed run on a device, without reasons.
func saved(t *testing.T, of, device string) *Column {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", of+"."+device+".json"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	l, err := ReadJSON(f)
	require.NoError(t, err)
	return &Column{Name: device, Rows: l}
}

// withoutReasons gives rows without what table.go and linux.go have: the rules, and the reasons of differences.
func withoutReasons(l []RowResult) []RowResult {
	for i := range l {
		l[i] = RowResult{ID: l[i].ID, Who: l[i].Who, Verdict: l[i].Verdict, Checks: l[i].Checks}
		for j := range l[i].Checks {
			d := l[i].Checks[j].Differs
			for n := range d {
				d[n] = Differs{Finding: d[n].Finding}
			}
		}
	}
	return l
}

func asJSON(t *testing.T, l []RowResult) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteJSON(&b, l))
	return b.String()
}

// TestKernelTable wants the saved runs, the reasons and the table to agree. NFSRDMA_TABLE is a directory with new runs, which are
// taken over then, and the table is written.
func TestKernelTable(t *testing.T) {
	from := os.Getenv("NFSRDMA_TABLE")
	ours, err := Run(context.Background(), Options{Faults: true, Seed: 1})
	require.NoError(t, err)
	cols := []Column{{Name: "embedded", Rows: ours}}
	for _, c := range kernelColumns {
		file := c.of + "." + c.device + ".json"
		name := filepath.Join("testdata", file)
		if from != "" {
			b, err := os.ReadFile(filepath.Join(from, file))
			require.NoError(t, err)
			l, err := ReadJSON(bytes.NewReader(b))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(name, []byte(asJSON(t, withoutReasons(l))), 0o644))
		}
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		l, err := ReadJSON(bytes.NewReader(b))
		require.NoError(t, err)
		col := Column{Name: c.title, Rows: l}
		col.Reexplain(c.known)
		assert.Empty(t, c.known.Missing(l, c.device), "known and not found: %s", file)
		for i := range l {
			for _, k := range l[i].Checks {
				assert.Empty(t, k.Findings, k.Test)
				for _, d := range k.Differs {
					assert.NotEmpty(t, d.Why, "%s: %s", k.Test, d.Finding)
				}
			}
		}
		cols = append(cols, col)
	}
	var b bytes.Buffer
	b.WriteString(tableHead)
	require.NoError(t, WriteMarkdown(&b, cols))
	if from != "" {
		require.NoError(t, os.WriteFile(kernelTable, b.Bytes(), 0o644))
	}
	have, err := os.ReadFile(kernelTable)
	require.NoError(t, err)
	assert.Equal(t, string(have), b.String(), "%s is not what the saved runs, the reasons and the embedded ends give: make kernel-table, or NFSRDMA_TABLE=testdata if no check of a server changed", kernelTable)
}

// TestReasons wants each difference to have a check, a reason, and each reason to be used.
func TestReasons(t *testing.T) {
	list := append([]Row(nil), rows...)
	for i := range faults {
		list = append(list, faults[i].row())
	}
	checks := map[string]bool{}
	for i := range list {
		for j := range list[i].checks {
			checks[list[i].ID+"/"+list[i].checks[j].title()] = true
		}
	}
	for _, k := range Servers {
		assert.Same(t, k, ServerNamed(k.Name))
	}
	for _, k := range append([]*Known{&Linux61Client}, Servers...) {
		seen := map[string]bool{}
		for _, d := range k.Differences {
			assert.True(t, checks[d.Check], "no check %s", d.Check)
			assert.False(t, seen[d.Check+d.Finding], "twice: %s: %s", d.Check, d.Finding)
			seen[d.Check+d.Finding] = true
			require.NotNil(t, d.Reason, d.Check)
			assert.True(t, strings.HasPrefix(d.Reason.Rule, "RFC "), d.Check)
			assert.NotEmpty(t, d.Reason.Where, d.Check)
			assert.NotEmpty(t, d.Reason.Why, d.Check)
		}
	}
}
