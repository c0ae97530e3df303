package fabric_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
)

func TestFirstUse(t *testing.T) {
	for _, live := range []bool{false, true} {
		for _, mode := range []nfsclient.RegMode{nfsclient.FastReg, nfsclient.AllPhysical, nfsclient.Bounce} {
			t.Run(map[bool]string{false: "virtual", true: "live"}[live]+"/"+mode.String(), func(t *testing.T) {
				f := fabric.New(t, fabric.Params{Live: live, RegMode: mode})
				m := f.Mount(t, "/")
				data := bytes.Repeat([]byte("0123456789abcdef!"), 20_000)
				m.WriteFile(t, "a", data)
				assert.Equal(t, data, m.ReadFile(t, "a"))
				for _, op := range []fabric.Op{fabric.Write, fabric.Read, fabric.Mix} {
					r := f.Run(t, fabric.Load{Op: op, ReadPercent: 50, Depth: 16, FileSize: 4 << 20, Verify: true})
					require.GreaterOrEqual(t, r.Bytes, int64(4<<20))
				}
			})
		}
	}
}

func TestOneGiB(t *testing.T) {
	f := fabric.New(t, fabric.Params{Link: &fabric.RoCE100G})
	t0 := time.Now()
	r := f.Run(t, fabric.Load{Op: fabric.Write, Size: 64 << 10, Depth: 16, Bytes: 1 << 30, Verify: true})
	t.Logf("%v: %v", time.Since(t0), r)
}
