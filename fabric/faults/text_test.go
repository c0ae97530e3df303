package faults_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/verbs/softroce"
)

func TestParse(t *testing.T) {
	list, err := faults.Parse("drop kind=WRITE dir=c->s nth=3; eio op=COMMIT p=0.01\n\ncrash op=WRITE nth=40 by=5ms;disconnect side=server at=2ms;" +
		"postfail op=REG_MR side=client every=7 max=2 from=1ms to=1s optional")
	require.NoError(t, err)
	assert.Equal(t, []faults.Fault{
		{Kind: faults.Drop, Packet: "WRITE", Dir: faults.ToServer, Nth: 3},
		{Kind: faults.EIO, Op: "COMMIT", P: 0.01},
		{Kind: faults.Crash, Op: "WRITE", Nth: 40, By: 5 * time.Millisecond},
		{Kind: faults.Disconnect, Side: faults.Server, From: 2 * time.Millisecond},
		{Kind: faults.PostFail, Op: "REG_MR", Side: faults.Client, Every: 7, Max: 2, From: time.Millisecond, To: time.Second, Optional: true},
	}, list)
	again, err := faults.Parse(faults.Format(list))
	require.NoError(t, err)
	assert.Equal(t, list, again)
	assert.Equal(t, "drop kind=WRITE dir=c->s nth=3", list[0].String())
	assert.Equal(t, "disconnect side=server at=2ms", list[3].String())
	assert.Equal(t, "drop/WRITE/c->s", list[0].Name())
}

func TestParseBad(t *testing.T) {
	for text, want := range map[string]string{
		"explode":                     "no fault",
		"drop drop":                   "no such key",
		"drop nth=x":                  "invalid syntax",
		"drop nth=-1":                 "negative",
		"drop nth=1 nth=2":            "twice",
		"drop p=2":                    "0 to 1",
		"drop p=NaN":                  "0 to 1",
		"drop kind=COFFEE":            "want one of SEND",
		"drop op=WRITE":               "no operation",
		"drop dir=up":                 "want one of any c->s s->c",
		"eio kind=WRITE":              "for packets",
		"eio dir=c->s":                "for packets",
		"eio op=RDMA_READ":            "no operation RDMA_READ",
		"eio side=client":             "for devices",
		"rnr kind=WRITE":              "only a SEND",
		"rnr kind=REQ":                "only a SEND",
		"eio kind=REQ":                "for packets",
		"disconnect by=1ms at=1ms":    "by= is for",
		"drop by=1ms":                 "by= is for",
		"drop at=1ms":                 "at= is for",
		"drop from=2ms to=1ms":        "ends before",
		"slow by=3h":                  "a time is not",
		"disconnect nth=3":            "no other predicates",
		"disconnect at=1ms from=2ms":  "at= is for",
		"disconnect op=WRITE at=1ms":  "at= is for",
		"eio optional=yes":            "no value",
		"crash kind=SEND dir=c->x":    "want one of",
		"postfail side=client op=EIO": "no operation",
	} {
		_, err := faults.Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// The packet kinds are those of the device.
func TestPacketKinds(t *testing.T) {
	for _, k := range slices.Concat(softroce.PacketKinds(), softroce.CMKinds()) {
		_, err := faults.Parse("drop kind=" + k)
		assert.NoError(t, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("drop kind=WRITE dir=c->s nth=3; eio op=COMMIT p=0.01")
	f.Add("crash op=WRITE nth=40 by=5ms; disconnect at=2ms optional")
	f.Add("remove side=server at=1ms by=5ms; duplicate kind=CM dir=s->c; crash kind=REQ nth=2; jukebox op=READ to=7s")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := faults.Parse(text)
		if err != nil {
			return
		}
		again, err := faults.Parse(faults.Format(list))
		require.NoError(t, err)
		require.Equal(t, list, again)
	})
}
