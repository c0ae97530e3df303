package fabric_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/verbs"
)

func TestFirstUse(t *testing.T) {
	for _, live := range []bool{false, true} {
		for _, mode := range nfsclient.RegModes() {
			t.Run(map[bool]string{false: "virtual", true: "live"}[live]+"/"+mode.String(), func(t *testing.T) {
				f := fabric.New(t, fabric.Params{Live: live, RegMode: mode})
				m, err := f.Dial(bg, "/")
				if errors.Is(err, verbs.ErrUnsupported) && f.Params().Device != fabric.Softroce {
					t.Skip(err)
				}
				require.NoError(t, err)
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

// TestOneGiB writes it in virtual time, verified; its log says how long that takes.
func TestOneGiB(t *testing.T) {
	f := fabric.New(t, fabric.Params{Link: &fabric.RoCE100G})
	t0 := time.Now()
	r := f.Run(t, fabric.Load{Op: fabric.Write, Size: 64 << 10, Depth: 16, Bytes: int64(share(1 << 30)), Verify: true})
	t.Logf("%v: %v", time.Since(t0), r)
	if raceEnabled {
		return
	}
	assert.EqualValues(t, 1<<30, r.Bytes)
	r.Server.Want(t, "nfs3_WRITE=16384 nfs3_COMMIT=1 zero_copy_writes=16384 nfs_errors=0")
	r.Client.Want(t, "retransmissions=0 serverwritebytes=1073741824")
	r.WantThroughput(t, fabric.Between(0.9*fabric.RoCE100G.PayloadRate(), fabric.RoCE100G.PayloadRate()))
}
