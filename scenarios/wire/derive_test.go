package wire

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var derive = flag.String("derive", "", "directory of packet captures to make the table of")

const tableFile = "testdata/linux-6.1.txt"

const tableHead = `# What the NFSv3 client and server of Linux 6.1 (Debian 12) sent each other over rxe (RoCEv2); siw (iWARP) alike but for
# its connection. Made of packet captures: go test ./scenarios/wire -run TestDerive -derive DIR. See describe_test.go.
# The server exported tmpfs; mount options were nolock,rsize=262144,wsize=262144.
`

// TestDerive makes the table of captures: v3-ops and v3-data1M over rxe, and v3-ops over siw, in which the client
// is 10.7.0.2. The messages must be
// the same over both; the RDMA operations that the server needs for a chunk depend on the device.
func TestDerive(t *testing.T) {
	if *derive == "" {
		t.Skip("no captures given (-derive)")
	}
	client := [4]byte{10, 7, 0, 2}
	read := func(name string) ([]*exchange, *capture) {
		c, err := readCapture(filepath.Join(*derive, name), client)
		require.NoError(t, err)
		x, err := exchanges(c.events)
		require.NoError(t, err, name)
		require.NotEmpty(t, c.connects, name)
		return x, c
	}
	ops, rxe := read("v3-ops-rxe.pcap")
	data, _ := read("v3-data1M-rxe.pcap")
	iwarp, siw := read("v3-ops-siw.pcap")
	out := table{
		{"connection, RoCE", rxe.connects[0].describe(false)},
		{"connection, iWARP", siw.connects[0].describe(true)},
	}
	for _, c := range cases {
		x, err := c.pick(ops)
		if err != nil {
			x, err = c.pick(data)
		}
		require.NoError(t, err)
		d, err := describe(x)
		require.NoError(t, err)
		if y, err := c.pick(iwarp); err == nil {
			other, err := describe(y)
			require.NoError(t, err)
			assert.Equal(t, messages(d), messages(other), "%s over rxe and siw", c.name)
		}
		out = append(out, entry{c.name, d})
	}
	for _, s := range sequences {
		c, err := s.cut(ops)
		if err != nil {
			c, err = s.cut(data)
		}
		require.NoError(t, err)
		out = append(out, entry{"sequence, " + s.name, description{{"calls", c}}})
	}
	require.NoError(t, os.WriteFile(tableFile, []byte(tableHead+out.String()), 0o644))
}

// messages are the fields of messages.
func messages(d description) description {
	return slices.DeleteFunc(slices.Clone(d), func(f field) bool { return strings.HasPrefix(f.name, "server.") })
}
