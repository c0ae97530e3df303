package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs/softroce"
)

// sequence is what a user does, and the calls that come of it: Linux's from one call of its capture to another, ours
// those of a method of nfsclient. Linux's were made with a cache that was empty of the file.
type sequence struct {
	name     string
	from, to wireCase
	ready    func(m *nfsclient.Mount) error
	do       func(m *nfsclient.Mount) error
	ours     string
	why      string
}

const (
	whyNoAccess = "Linux asks ACCESS, and GETATTR to see whether its cache holds; ours has no cache, and the server checks."
	whyCount    = "Linux reads whole pages, from a page cache that it fills by read-ahead; ours what is asked for."
)

var sequences = []sequence{
	{
		name: "create and write 5000",
		from: wireCase{proc: nfs3.LOOKUP, args: `"w5000"`}, to: wireCase{proc: nfs3.WRITE, args: "count=5000 "},
		do: writeFile("w5000", 5000),
	},
	{
		name: "create and write 65537",
		from: wireCase{proc: nfs3.LOOKUP, args: `"w64k1"`}, to: wireCase{proc: nfs3.WRITE, args: "count=65537 "},
		do: writeFile("w64k1", 65537),
	},
	{
		name: "create, write 1 MiB and fsync",
		from: wireCase{proc: nfs3.LOOKUP, args: `"f1m"`}, to: wireCase{proc: nfs3.COMMIT},
		do: writeFile("f1m", 1<<20),
	},
	{
		name:  "read 5000",
		from:  wireCase{proc: nfs3.LOOKUP, args: `"w5000"`, reply: "NFS3_OK"},
		to:    wireCase{proc: nfs3.READ, args: "offset=0 count=8192"},
		ready: writeFile("w5000", 5000), do: readFile("w5000"),
		ours: "LOOKUP READ,5000", why: whyNoAccess + " " + whyCount,
	},
	{
		name:  "read 65537",
		from:  wireCase{proc: nfs3.LOOKUP, args: `"w64k1"`, reply: "NFS3_OK"},
		to:    wireCase{proc: nfs3.READ, args: "offset=49152"},
		ready: writeFile("w64k1", 65537), do: readFile("w64k1"),
		ours: "LOOKUP READ,65537", why: whyNoAccess + " " + whyCount,
	},
	{
		name: "read 1 MiB",
		from: wireCase{proc: nfs3.LOOKUP, args: `"ro"`, reply: "NFS3_OK"},
		to:   wireCase{proc: nfs3.READ, args: "offset=786432"},
		do:   readFile("ro"),
		ours: "LOOKUP READ,262144 READ,262144 READ,262144 READ,262144", why: whyNoAccess,
	},
	{
		name: "list 500 names",
		from: wireCase{proc: nfs3.LOOKUP, args: `"big"`}, to: wireCase{proc: nfs3.READDIRPLUS, nth: 1},
		do: func(m *nfsclient.Mount) error {
			f, err := m.Open(bg, "big")
			if err != nil {
				return err
			}
			l, err := f.ReadDir(-1)
			if err == nil && len(l) != bigNames {
				err = fmt.Errorf("%d names", len(l))
			}
			return err
		},
		ours: "LOOKUP READDIRPLUS,65536 READDIRPLUS,131072", why: whyNoAccess,
	},
	{
		name: "rename",
		from: wireCase{proc: nfs3.LOOKUP, args: `"tiny2"`}, to: wireCase{proc: nfs3.RENAME},
		do:   func(m *nfsclient.Mount) error { return m.Rename(bg, m.Root(), "ro", m.Root(), "ro2") },
		ours: "RENAME", why: "The method is the bare procedure: it does not look whether the new name is there.",
	},
}

func writeFile(name string, n int) func(*nfsclient.Mount) error {
	return func(m *nfsclient.Mount) error { return m.WriteFile(bg, name, make([]byte, n), 0o644) }
}

func readFile(name string) func(*nfsclient.Mount) error {
	return func(m *nfsclient.Mount) error {
		_, err := m.ReadFile(bg, name)
		return err
	}
}

// calls prints exchanges of NFS as a list of procedures.
func calls(all []*exchange) string {
	var out []string
	for _, x := range all {
		p, ok := x.proc()
		if !ok {
			continue
		}
		s := p.String()
		for _, w := range fields(x.formatArgs()) {
			for _, k := range []string{"count=", "stable=", "maxcount="} {
				if v, ok := strings.CutPrefix(w, k); ok {
					s += "," + v
				}
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// cut gives Linux's calls.
func (s *sequence) cut(all []*exchange) (string, error) {
	from, err := s.from.pick(all)
	if err != nil {
		return "", err
	}
	to, err := s.to.pick(all)
	if err != nil {
		return "", err
	}
	var out []*exchange
	for _, x := range all {
		if x == from {
			out = []*exchange{}
		}
		if out != nil {
			out = append(out, x)
		}
		if x == to {
			break
		}
	}
	return calls(out), nil
}

// TestSequences compares the calls that come of what a user does.
func TestSequences(t *testing.T) {
	linux := newTable(t)
	for _, s := range sequences {
		t.Run(s.name, func(t *testing.T) {
			r := newRig(t, softroce.RoCE)
			m, err := nfsclient.New(bg, nfsclient.Config{Device: r.cdev, Addr: addr, Export: "/export", Sched: r.s, RSize: 262144, WSize: 262144})
			require.NoError(t, err)
			if s.ready != nil {
				require.NoError(t, s.ready(m))
			}
			before := len(r.rec.events)
			require.NoError(t, s.do(m))
			all, err := exchanges(r.rec.events[before:])
			require.NoError(t, err)
			require.NoError(t, m.Close())
			want, _ := linux.get("sequence, " + s.name).get("calls")
			got := calls(all)
			if s.ours != "" {
				assert.NotEqual(t, want, s.ours, "no difference any more")
				assert.NotEmpty(t, s.why)
				want = s.ours
			}
			assert.Equal(t, want, got)
		})
	}
}
