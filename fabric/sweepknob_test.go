package fabric

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func knobValues(t *testing.T, spec string) (name, values string, err error) {
	t.Helper()
	k, err := ParseKnob(spec)
	if err != nil {
		return "", "", err
	}
	x, err := findKnob(sweepKnobs(), k.Name)
	if err != nil {
		return "", "", err
	}
	v, err := x.values(k.Values)
	return x.name, strings.Join(v, " "), err
}

func TestKnobValues(t *testing.T) {
	for _, c := range []struct{ spec, name, values string }{
		{"ord=1,2,4..8", "ORD", "1 2 4 5 6 7 8"},
		{"RPCRDMA_MAX_DATA_SEGS=8", "MaxDataSegs", "8"},
		{"rpcrdma-max-data-segs=8", "MaxDataSegs", "8"},
		{"Params.ORD=default,3", "ORD", "default 3"},
		{"load.depth=1..64:x2", "Depth", "1 2 4 8 16 32 64"},
		{"size=4K..1M(x2)", "Size", "4096 8192 16384 32768 65536 131072 262144 524288 1048576"},
		{"size=4k..16k:+4K", "Size", "4096 8192 12288 16384"},
		{"size=1..10:x1.5", "Size", "1 2 3 5 8"},
		{"mode=FastReg,all-physical", "RegMode", "fastreg all-physical"},
		{"rdma_memreg_strategy=bounce", "RegMode", "bounce"},
		{"op=write,getattr", "Op", "write getattr"},
		{"link=ibsdr,roce25g,direct", "Link", "IBSDR RoCE25G direct"},
		{"delay=0us,2us,1.5ms", "Link.Delay", "0s 2µs 1.5ms"},
		{"Link.Delay=0s..100us:+50us", "Link.Delay", "0s 50µs 100µs"},
		{"link.delay=1us..10us:x3", "Link.Delay", "1µs 3µs 9µs"},
		{"loss=0..0.3:+0.1", "Link.Loss", "0 0.1 0.2 0.3"},
		{"link.loss=0.001..1:x10", "Link.Loss", "0.001 0.01 0.1 1"},
		{"random=true,false", "Random", "true false"},
		{"personality=t310", "Personality", "T310"},
		{"storage=memory,SINK", "Storage", "memory sink"},
		{"DRCEntries=-1,16", "DRCEntries", "-1 16"},
		{"warm=0,5", "Warm", "0 5"},
		{"lock=0s,92.1us", "InodeLock", "0s 92.1µs"},
		{"filesize=1G", "FileSize", "1073741824"},
		{"nfsd=1", "Threads", "1"},
		{"seed=1..3", "Seed", "1 2 3"},
	} {
		name, values, err := knobValues(t, c.spec)
		require.NoError(t, err, c.spec)
		assert.Equal(t, c.name, name, c.spec)
		assert.Equal(t, c.values, values, c.spec)
	}
}

func TestKnobErrors(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{"ord", `"ord" is not name=values`},
		{"=1", "is not name=values"},
		{"ords=1", `no knob "ords"; did you mean ORD`},
		{"maxdatasegments=1", "MaxDataSegs?"},
		{"RPCRDMA_MAX_DATA_SEG=1", "did you mean RPCRDMA_MAX_DATA_SEGS"},
		{"frobnicate=1", `no knob "frobnicate"`},
		{"live=true", `no knob "live"`},
		{"device=rxe0", `Personality (device) is "rxe0", must be one of RoCE, MT25208, T310`},
		{"mode=fastrge", `RegMode (rdma_memreg_strategy) is "fastrge", must be one of `},
		{"mode=fastrge", "did you mean fastreg?"},
		{"link=IBSRD", "did you mean IBSDR?"},
		{"segs=0", "MaxDataSegs (RPCRDMA_MAX_DATA_SEGS) is 0, must be at least 1, or the word default"},
		{"ord=1,,2", `ORD (max_outbound_read_requests) is "", must be an integer`},
		{"ord=one", `is "one", must be an integer`},
		{"ord=1.5", `is "1.5", must be an integer`},
		{"ord=1,2,1", "has the value 1 twice"},
		{"ord=99999999999999999999", "must be"},
		{"size=9E", "must be an integer"},
		{"size=99999999999T", "must be -9223372036854775808 to 9223372036854775807"},
		{"uid=-1", "must be 0 to 4294967295"},
		{"size=1..1M", "at most 4096 values: give a range a step"},
		{"ord=4..1", "from the lesser to the greater"},
		{"ord=1..4:x1", "a factor above 1"},
		{"ord=1..4:+0", "a step above 0"},
		{"ord=1..4:+-1", "a step above 0"},
		{"ord=1..4:x", "a range such as"},
		{"ord=1..4:xx", "step is a number"},
		{"ord=1..", "must be an integer"},
		{"warm=0..8:x2", "from a value above 0"},
		{"mode=bounce..fastreg", "names have no ranges"},
		{"ord=default..4", "names have no ranges"},
		{"delay=1us..2us", "durations with a step"},
		{"delay=5", "a duration with its unit"},
		{"delay=-1us", "not negative"},
		{"loss=NaN", "must be a number"},
		{"random=yes", "one of false, true"},
	} {
		_, _, err := knobValues(t, c.spec)
		if assert.Error(t, err, c.spec) {
			assert.Contains(t, err.Error(), c.want, c.spec)
		}
	}
}

// Each knob reaches its field, and nothing else.
func TestEveryKnobTurns(t *testing.T) {
	sample := func(k *sweepKnob) string {
		for _, v := range []string{"3", "2us", "true", "x"} {
			if s, err := k.parse(v); err == nil {
				return s
			}
		}
		_, names, _ := strings.Cut(k.kind, ": ")
		list := strings.Split(names, ", ")
		return list[len(list)-1]
	}
	n := 0
	for _, k := range sweepKnobs() {
		v := sample(&k)
		got, err := k.value(v)
		require.NoError(t, err, k.name)
		var before, after setting
		k.turn(&after, got)
		assert.NotEqual(t, fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", after), k.name)
		before = after
		k.turn(&after, defaultValue)
		assert.Equal(t, fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", after), k.name)
		n++
	}
	assert.Greater(t, n, 50)
	for name := range kernelNames {
		_, err := findKnob(sweepKnobs(), name)
		assert.NoError(t, err, "kernelNames has %s", name)
	}
	for _, name := range zeroIsValue {
		_, err := findKnob(sweepKnobs(), name)
		assert.NoError(t, err, "zeroIsValue has %s", name)
	}
}

func TestKnobNamesAreDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, k := range KnobInfos() {
		for _, n := range append([]string{k.Name}, k.Kernel...) {
			f := foldName(n)
			if other, ok := seen[f]; ok {
				assert.Equal(t, k.Name, other, n)
			}
			seen[f] = k.Name
		}
		assert.NotEmpty(t, k.Kind, k.Name)
	}
}

// Of Params, what is no knob is left out on purpose.
func TestFieldsWithoutKnob(t *testing.T) {
	var out []string
	for _, x := range []reflect.Type{reflect.TypeFor[Params](), reflect.TypeFor[Load]()} {
		for i := range x.NumField() {
			if _, err := findKnob(sweepKnobs(), x.Field(i).Name); err != nil {
				out = append(out, x.Field(i).Name)
			}
		}
	}
	assert.Subset(t, []string{"Live", "Trace", "Faults", "Client", "Sizes", "Mount", "Dir", "Name"}, out,
		"a new field wants a knob (sweepKnob.of, sweepKnobs) or a place in this list")
}

func TestSpecsNeverPanic(t *testing.T) {
	all := sweepKnobs()
	rapid.Check(t, func(t *rapid.T) {
		k := &all[rapid.IntRange(0, len(all)-1).Draw(t, "knob")]
		spec := rapid.StringMatching(`[0-9a-zA-Z.:,()x+*KMGµ-]{0,24}`).Draw(t, "spec")
		vs, err := k.values(spec)
		if err != nil {
			return
		}
		again, err := k.values(strings.Join(vs, ","))
		require.NoError(t, err)
		require.Equal(t, vs, again, "canonical values are their own canonical form")
	})
}

// Fields of types that read their own text, and texts, are knobs as well.
func TestKnobOfText(t *testing.T) {
	var k sweepKnob
	put := k.of(reflect.TypeFor[netip.Addr]())
	require.NotNil(t, put)
	_, err := k.value("nowhere")
	require.ErrorContains(t, err, `is "nowhere", must be`)
	v, err := k.value("10.0.0.1")
	require.NoError(t, err)
	var a netip.Addr
	put(reflect.ValueOf(&a).Elem(), v)
	assert.Equal(t, netip.MustParseAddr("10.0.0.1"), a)

	put = k.of(reflect.TypeFor[string]())
	var s string
	put(reflect.ValueOf(&s).Elem(), "x")
	assert.Equal(t, "x", s)
	_, err = k.value("")
	require.ErrorContains(t, err, "not empty")
}
