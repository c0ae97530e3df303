package metrics

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var families = []Family{
	{"calls_total", "Calls, \"executed\", by C:\\procedure\nand more.", Counter, []Sample{Of("procedure", "READ", 3), Of("procedure", "WRITE", math.MaxUint32)}},
	{"nothing_total", "No samples.", Counter, nil},
	Single("threads", Gauge, "Threads.", 0.5),
	{"odd", "Values that must be escaped.", Gauge, []Sample{{[]Label{{"a", "x\"y\\z\n"}, {"b", ""}}, 1e12}}},
}

func TestWriteText(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteText(&b, families))
	assert.Equal(t, `# HELP calls_total Calls, "executed", by C:\\procedure\nand more.
# TYPE calls_total counter
calls_total{procedure="READ"} 3
calls_total{procedure="WRITE"} 4.294967295e+09
# HELP threads Threads.
# TYPE threads gauge
threads 0.5
# HELP odd Values that must be escaped.
# TYPE odd gauge
odd{a="x\"y\\z\n",b=""} 1e+12
`, b.String())
}

// Prometheus' own parser reads it back.
func TestReadBack(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteText(&b, families))
	p := expfmt.NewTextParser(model.LegacyValidation)
	got, err := p.TextToMetricFamilies(&b)
	require.NoError(t, err)
	require.Len(t, got, 3)
	calls := got["calls_total"]
	assert.Equal(t, families[0].Help, calls.GetHelp())
	require.Len(t, calls.GetMetric(), 2)
	assert.Equal(t, "WRITE", calls.GetMetric()[1].GetLabel()[0].GetValue())
	assert.EqualValues(t, math.MaxUint32, calls.GetMetric()[1].GetCounter().GetValue())
	assert.Equal(t, 0.5, got["threads"].GetMetric()[0].GetGauge().GetValue())
	odd := got["odd"].GetMetric()[0]
	assert.Equal(t, "x\"y\\z\n", odd.GetLabel()[0].GetValue())
	assert.Equal(t, 1e12, odd.GetGauge().GetValue())
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestWriteError(t *testing.T) {
	require.ErrorContains(t, WriteText(broken{}, families), "no room")
}
