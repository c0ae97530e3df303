package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/softroce"
)

// scrape reads what the server tells Prometheus, with Prometheus' own parser.
func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", r.Header.Get("Content-Type"))
	p := expfmt.NewTextParser(model.LegacyValidation)
	got, err := p.TextToMetricFamilies(r.Body)
	require.NoError(t, err)
	return got
}

// sample is the value of a family's sample that has this value of its label; "" is the one without labels.
func sampleOf(t *testing.T, all map[string]*dto.MetricFamily, name, label string) float64 {
	t.Helper()
	f := all[name]
	require.NotNil(t, f, name)
	for _, m := range f.GetMetric() {
		if label == "" && len(m.GetLabel()) == 0 || len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
			if f.GetType() == dto.MetricType_COUNTER {
				return m.GetCounter().GetValue()
			}
			return m.GetGauge().GetValue()
		}
	}
	require.Fail(t, "no such sample", "%s %s", name, label)
	return 0
}

func TestServeMetrics(t *testing.T) {
	s := startServe(t, append(loopback, "-metrics", "127.0.0.1:0", "-threads", "3", "-e", "/=memfs:64M")...)
	url := s.want(`metrics (http://127\.0\.0\.1:\d+/metrics)`)
	addr := s.want(`nfsrdma probe (tcp://127\.0\.0\.1:\d+)/`)
	before := scrape(t, url)
	assert.EqualValues(t, 3, sampleOf(t, before, "nfsrdma_threads", ""))
	assert.Zero(t, sampleOf(t, before, "nfsrdma_calls_total", "READ"))

	status, out, errOut := runCLI(t, "probe", addr, "-write", "-size", "1M", "-mountstats")
	require.Zero(t, status, errOut)
	assert.Regexp(t, `device 127\.0\.0\.1:/ mounted on / with fstype nfs statvers=1\.1\n\topts:\trw,vers=3,`, out)
	assert.Regexp(t, `\txprt:\ttcp( \d+){13}\n\tper-op statistics\n`, out)
	assert.Regexp(t, `\t        READ: [1-9]\d* [1-9]\d* 0 [1-9]\d* [1-9]\d* \d+ \d+ \d+ 0\n`, out)
	after := scrape(t, url)
	assert.Positive(t, sampleOf(t, after, "nfsrdma_calls_total", "READ"))
	assert.EqualValues(t, 2, sampleOf(t, after, "nfsrdma_calls_total", "FSINFO"), "of the mount, and of probe")
	assert.Positive(t, sampleOf(t, after, "nfsrdma_calls_total", "WRITE"))
	assert.GreaterOrEqual(t, sampleOf(t, after, "nfsrdma_write_bytes_total", ""), float64(1<<20))
	assert.GreaterOrEqual(t, sampleOf(t, after, "nfsrdma_tcp_received_bytes_total", ""), float64(1<<20))
	assert.Positive(t, sampleOf(t, after, "nfsrdma_connections_accepted_total", "tcp"))
	assert.Zero(t, sampleOf(t, after, "nfsrdma_connections_accepted_total", "rdma"))
	assert.Positive(t, sampleOf(t, after, "nfsrdma_mount_calls_total", ""))
	assert.NotContains(t, after, "nfsrdma_rdma_work_requests_total", "there is no RDMA device")

	for name, f := range after {
		assert.True(t, strings.HasPrefix(name, "nfsrdma_"), name)
		assert.Equal(t, f.GetType() == dto.MetricType_COUNTER, strings.HasSuffix(name, "_total"), name)
		assert.True(t, strings.HasSuffix(f.GetHelp(), "."), "%s: %s", name, f.GetHelp())
	}

	// A port that is taken is told.
	status, _, errOut = runCLI(t, append([]string{"serve", "-metrics", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics")}, loopback...)...)
	assert.Equal(t, 1, status)
	assert.Contains(t, errOut, "--metrics: listen tcp")

	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for method, want := range map[string]int{http.MethodPost: http.StatusMethodNotAllowed, http.MethodGet: http.StatusNotFound} {
		u := url
		if method == http.MethodGet {
			u += "x"
		}
		req, err := http.NewRequest(method, u, nil)
		require.NoError(t, err)
		r, err := c.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		r.Body.Close()
		assert.Equal(t, want, r.StatusCode, "%s %s", method, u)
	}
}

func TestServeMetricsOverRDMA(t *testing.T) {
	live := sched.NewLive(1)
	network := softroce.NewNetwork(live, softroce.NetConfig{})
	t.Cleanup(func() {
		assert.NoError(t, network.Close())
		assert.NoError(t, live.Close())
	})
	saved := openDevice
	t.Cleanup(func() { openDevice = saved })
	openDevice = func(name string) (verbs.Device, error) { return network.NewDevice(name, softroce.RoCE) }
	s := startServe(t, append(loopback, "-d", "server", "-metrics", "127.0.0.1:0")...)
	url := s.want(`metrics (http://127\.0\.0\.1:\d+/metrics)`)
	s.want(`rdma   server:20049`)
	status, _, errOut := runCLI(t, "probe", "rdma://server/", "-d", "client", "-write", "-size", "1M")
	require.Zero(t, status, errOut)
	got := scrape(t, url)
	assert.Positive(t, sampleOf(t, got, "nfsrdma_rdma_work_requests_total", "read"), "WRITEs")
	assert.Positive(t, sampleOf(t, got, "nfsrdma_rdma_work_requests_total", "write"), "READs")
	assert.EqualValues(t, 1, sampleOf(t, got, "nfsrdma_connections_accepted_total", "rdma"))
	assert.Positive(t, sampleOf(t, got, "nfsrdma_received_messages_total", "rdma"))
	assert.NotEmpty(t, got["nfsrdma_device_events"].GetMetric())
}
