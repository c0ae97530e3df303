package fabric_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/verbs"
)

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		r       fabric.Range
		in, out []float64
	}{
		{fabric.Between(2, 3), []float64{2, 2.5, 3}, []float64{1.9, 3.1}},
		{fabric.AtLeast(2), []float64{2, 1e300}, []float64{1.9, -1}},
		{fabric.AtMost(2), []float64{2, -1e300}, []float64{2.1}},
		{fabric.Within(100, 0.05), []float64{95, 105}, []float64{94.9, 105.1}},
	} {
		for _, v := range c.in {
			assert.True(t, c.r.Has(v), "%v in %v", v, c.r)
		}
		for _, v := range c.out {
			assert.False(t, c.r.Has(v), "%v in %v", v, c.r)
		}
	}
}

func TestExpectationsOfTime(t *testing.T) {
	eachTime(t, func(t *testing.T, p fabric.Params) {
		p.Link = &fabric.IBSDR
		f := fabric.New(t, p)
		r := f.Run(t, fabric.Load{Op: fabric.Write, Depth: 16, FileSize: 4 << 20, Warm: 16})
		for _, c := range []struct {
			check func(fabric.TB)
			want  string // "" if it holds
		}{
			{func(t fabric.TB) { r.WantThroughput(t, fabric.AtLeast(1)) }, ""},
			{func(t fabric.TB) { r.WantOps(t, fabric.Between(1, 1e12)) }, ""},
			{func(t fabric.TB) { r.WantLatency(t, 0.99, fabric.AtMost(1000)) }, ""},
			{func(t fabric.TB) { r.WantThroughput(t, fabric.AtLeast(1e6*fabric.MBps)) }, " MB/s, want at least 1e+06 MB/s\n"},
			{func(t fabric.TB) { r.WantThroughput(t, fabric.Between(1, 2000)) }, " MB/s, want 1e-06 to 0.002 MB/s\n"},
			{func(t fabric.TB) { r.WantOps(t, fabric.AtMost(3)) }, " calls/s, want at most 3 calls/s\n"},
			{func(t fabric.TB) { r.WantLatency(t, 0.5, fabric.Within(5e-9, 0.1)) }, " us, want 0.0045 to 0.0055 us\n"},
		} {
			fake := runFake("TestX", c.check)
			assert.False(t, fake.stopped, "the test goes on")
			switch {
			case c.want == "":
				assert.Empty(t, fake.lines)
			case p.Live: // time depends on the machine
				assert.False(t, fake.failed)
				require.Len(t, fake.lines, 1)
				assert.Contains(t, fake.lines[0], "log (live, not asserted) ")
				assert.Contains(t, fake.lines[0], c.want)
			default:
				require.Len(t, fake.errors(), 1)
				assert.Contains(t, fake.errors()[0], c.want)
				assert.Contains(t, fake.errors()[0], "write 65536 B, depth 16: ", "the whole result is there")
			}
		}
	})
}

func TestCounters(t *testing.T) {
	c := fabric.Counters{{Name: "sends", Value: 7}, {Name: "recvs", Value: 0}, {Name: "big", Value: 1<<64 - 1}}
	assert.Equal(t, "sends=7 big=18446744073709551615", c.String())
	v, ok := c.Get("sends")
	assert.True(t, ok)
	assert.EqualValues(t, 7, v)
	_, ok = c.Get("send")
	assert.False(t, ok)
	for _, want := range []string{
		"", "  ", "sends=7", "sends==7", "sends!=8", "sends>6", "sends>=7", "sends<8", "sends<=7", "recvs=0 sends=7",
		"big=18446744073709551615",
	} {
		assert.NoError(t, c.Check(want), want)
	}
	for want, msg := range map[string]string{
		"sends=8":                   "fabric: counters: sends is 7, want =8\n\tall: sends=7 big=18446744073709551615",
		"sends!=7":                  "sends is 7, want !=7",
		"sends>7":                   "sends is 7, want >7",
		"sends<7 recvs>=1":          "sends is 7, want <7; recvs is 0, want >=1",
		"send=7 sends>7":            "no counter \"send\"; sends is 7, want >7\n\tthere are: sends recvs big",
		"sends<=6":                  "sends is 7, want <=6",
		"send=7":                    `no counter "send"`,
		"sends":                     `expectation "sends" is not name, operator, number, such as recvs>=3`,
		"=7":                        `expectation "=7" is not name, operator, number`,
		"sends=":                    `expectation "sends=" has no number`,
		"sends=x":                   `expectation "sends=x": "x" is not a count`,
		"sends=-1":                  `"-1" is not a count`,
		"sends=<7":                  `unknown operator "=<"`,
		"sends = 7":                 `expectation "sends" is not name`,
		"big=184467440737095516160": "is not a count",
	} {
		assert.ErrorContains(t, c.Check(want), msg, want)
	}
	fake := runFake("TestX", func(t fabric.TB) {
		c.Want(t, "sends=7")
		c.Want(t, "sends=9")
	})
	assert.False(t, fake.stopped)
	assert.Equal(t, []string{"fabric: counters: sends is 7, want =9\n\tall: sends=7 big=18446744073709551615"}, fake.errors())

	d := fabric.Counters{{Name: "sends", Value: 10}, {Name: "fresh", Value: 2}, {Name: "big", Value: 5}}.Sub(c)
	assert.Equal(t, fabric.Counters{{Name: "sends", Value: 3}, {Name: "fresh", Value: 2}, {Name: "big", Value: 0}}, d)
}

// TestCountersOverMounts: closed mounts count on, and only once.
func TestCountersOverMounts(t *testing.T) {
	f := fabric.New(t, fabric.Params{})
	get := func(c fabric.Counters, name string) uint64 {
		v, ok := c.Get(name)
		require.True(t, ok, "%s in %v", name, c)
		return v
	}
	a, b := f.Mount(t, "/"), f.Mount(t, "/")
	for range 5 {
		require.NoError(t, a.NFS().Null(bg))
		require.NoError(t, b.NFS().Null(bg))
	}
	before := get(f.Client().Counters(), "sends")
	assert.EqualValues(t, 2*(2+5), before)
	a.Unmount(t)
	a.Unmount(t)
	assert.Equal(t, before, get(f.Client().Counters(), "sends"))
	f.Mount(t, "/")
	assert.Equal(t, before+2, get(f.Client().Counters(), "sends"))
	assert.Equal(t, before+2, get(f.Server().Counters(), "rdma_stat_recv"))
	assert.EqualValues(t, 3, get(f.Server().Counters(), "conn_accepted"))
	assert.Equal(t, before+2, get(f.Client().Device(), "rdma_sends"))
	assert.Positive(t, f.Client().Resources().QP)
	assert.Equal(t, verbs.Resources{}.MW, f.Server().Resources().MW)
}

func TestOpNames(t *testing.T) {
	var all []string
	for op := fabric.Write; op <= fabric.Null+1; op++ {
		all = append(all, op.String())
	}
	assert.Equal(t, "write read mix getattr null Op(5)", strings.Join(all, " "))
	assert.Equal(t, "memfs+inodelock", fabric.Memory().WithInodeLock(time.Second, 1).String())
	assert.Equal(t, "memfs", fabric.Storage{}.String())
	assert.Equal(t, "sink", fabric.Sink().String())
}
