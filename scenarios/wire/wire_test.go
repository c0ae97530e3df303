package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// over are the devices on which the comparison is made, by the name of their connection in the table. siw's has
// the limits of the kernel's siw that matter here.
var over = map[string]softroce.Personality{"connection, RoCE": softroce.RoCE, "connection, iWARP": siw()}

func siw() softroce.Personality {
	p := softroce.RoCE
	p.Name = "siw-like"
	p.Attr.Transport, p.Attr.Caps = verbs.IWARP, p.Attr.Caps&^verbs.CapRNR
	p.Attr.MaxSGE, p.Attr.MaxSGERd, p.Attr.MaxFastRegPages = 6, 1, 256
	return p
}

// TestClient compares what our client sends with what Linux's does.
func TestClient(t *testing.T) {
	linux := newTable(t)
	for connection, p := range over {
		t.Run(p.Name, func(t *testing.T) {
			r := newRig(t, p)
			session(t, r)
			compare(t, linux, r.rec, connection, isClients, clientDifferences)
		})
	}
}

// TestServer compares what our server makes of the calls of Linux's client, chunks included, with what
// Linux's does.
func TestServer(t *testing.T) {
	linux := newTable(t)
	for connection, p := range over {
		t.Run(p.Name, func(t *testing.T) {
			first := newRig(t, p)
			session(t, first)
			calls, err := exchanges(first.rec.events)
			require.NoError(t, err)
			calls = slices.DeleteFunc(calls, func(x *exchange) bool { _, nfs := x.proc(); return !nfs })
			r := newRig(t, p)
			replay(t, r, calls, linux)
			compare(t, linux, r.rec, connection, func(field string) bool { return !isClients(field) }, serverDifferences)
		})
	}
}

func newTable(t *testing.T) table {
	t.Helper()
	linux, err := readTable(tableFile)
	require.NoError(t, err)
	require.Len(t, linux, len(cases)+len(over)+len(sequences), "the table has what no case compares")
	return linux
}

// compare goes through the cases. What differs must be listed, and what is listed must differ. The RDMA operations
// of the server are compared over RoCE alone, of which the table has them.
func compare(t *testing.T, linux table, rec *recorder, connection string, side func(field string) bool, listed []difference) {
	t.Helper()
	ours, err := exchanges(rec.events)
	require.NoError(t, err)
	require.Len(t, rec.connects, 1)
	iwarp := connection == "connection, iWARP"
	known := newKnown(t, listed, func(name, field string) bool {
		return side(field) && (over[name].Name == "" || name == connection) && !(iwarp && strings.HasPrefix(field, "server."))
	})
	known.compare(t, connection, linux.get(connection), rec.connects[0].describe(iwarp))
	for i := range cases {
		c := &cases[i]
		want := linux.get(c.name)
		require.NotEmpty(t, want, "%s is not in the table", c.name)
		x, err := c.pick(ours)
		require.NoError(t, err)
		got, err := describe(x)
		require.NoError(t, err)
		known.compare(t, c.name, want, got)
	}
	known.wantAllSeen(t)
}
