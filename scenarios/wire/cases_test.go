package wire

import (
	"fmt"
	"strings"

	"example.org/nfsrdma/internal/nfs3"
)

// wireCase picks an exchange out of many, the first that fits.
type wireCase struct {
	name  string
	proc  nfs3.Proc
	args  string // in the print of the arguments
	reply string // in the print of the result's status, or empty
	nth   int    // of those that fit, from 0
}

// cases are the operations that are compared. Linux's WRITE of 1 MiB is four calls of wsize=262144.
var cases = []wireCase{
	{name: "NULL", proc: nfs3.NULL},
	{name: "FSINFO", proc: nfs3.FSINFO},
	{name: "PATHCONF", proc: nfs3.PATHCONF},
	{name: "GETATTR", proc: nfs3.GETATTR},
	{name: "ACCESS", proc: nfs3.ACCESS},
	{name: "MKDIR", proc: nfs3.MKDIR},
	{name: "LOOKUP, no such name", proc: nfs3.LOOKUP, args: `"tiny"`, reply: "NFS3ERR_NOENT"},
	{name: "LOOKUP", proc: nfs3.LOOKUP, args: `"tiny"`, reply: "NFS3_OK"},
	{name: "CREATE", proc: nfs3.CREATE, args: `"tiny"`},
	{name: "WRITE 3", proc: nfs3.WRITE, args: "count=3 "},
	{name: "WRITE 2000", proc: nfs3.WRITE, args: "count=2000 "},
	{name: "WRITE 5000", proc: nfs3.WRITE, args: "count=5000 "},
	{name: "WRITE 65537", proc: nfs3.WRITE, args: "count=65537 "},
	{name: "WRITE 1 MiB, at 0", proc: nfs3.WRITE, args: "offset=0 count=262144"},
	{name: "WRITE 1 MiB, at 786432", proc: nfs3.WRITE, args: "offset=786432 count=262144"},
	{name: "COMMIT", proc: nfs3.COMMIT},
	{name: "READ 3", proc: nfs3.READ, args: "offset=0 count=4096"},
	{name: "READ 2000", proc: nfs3.READ, args: "offset=0 count=4096", nth: 1},
	{name: "READ 5000", proc: nfs3.READ, args: "offset=0 count=8192"},
	{name: "READ 65537, at 0", proc: nfs3.READ, args: "offset=0 count=16384"},
	{name: "READ 65537, at 16384", proc: nfs3.READ, args: "offset=16384 count=32768"},
	{name: "READ 65537, at 49152", proc: nfs3.READ, args: "offset=49152 count=20480"},
	{name: "READ 1 MiB, at 0", proc: nfs3.READ, args: "offset=0 count=262144"},
	{name: "READ 1 MiB, at 786432", proc: nfs3.READ, args: "offset=786432 count=262144"},
	{name: "READDIRPLUS, first", proc: nfs3.READDIRPLUS, args: " cookie=0 "},
	{name: "READDIRPLUS, next", proc: nfs3.READDIRPLUS, nth: 1},
	{name: "SYMLINK 5", proc: nfs3.SYMLINK, args: `"s1"`},
	{name: "SYMLINK 900", proc: nfs3.SYMLINK, args: `"s2"`},
	{name: "SYMLINK 4000", proc: nfs3.SYMLINK, args: `"s3"`},
	{name: "READLINK 5", proc: nfs3.READLINK},
	{name: "READLINK 900", proc: nfs3.READLINK, nth: 1},
	{name: "READLINK 4000", proc: nfs3.READLINK, nth: 2},
	{name: "RENAME", proc: nfs3.RENAME},
	{name: "LINK", proc: nfs3.LINK},
	{name: "REMOVE", proc: nfs3.REMOVE},
	{name: "FSSTAT", proc: nfs3.FSSTAT},
}

// pick finds the exchange of a case.
func (c *wireCase) pick(all []*exchange) (*exchange, error) {
	n := 0
	for _, x := range all {
		p, ok := x.proc()
		if !ok || p != c.proc || !strings.Contains(x.formatArgs(), c.args) {
			continue
		}
		if c.reply != "" {
			d, err := describe(x)
			if err != nil {
				return nil, err
			}
			if st, _ := d.get("res.status"); st != c.reply {
				continue
			}
		}
		if n == c.nth {
			return x, nil
		}
		n++
	}
	return nil, fmt.Errorf("%s: not found", c.name)
}
