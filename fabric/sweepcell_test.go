package fabric

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/verbs/softroce"
)

// What panics in a cell costs that cell alone.
func TestSweepPanickingCell(t *testing.T) {
	n := 0
	m := Matrix{
		Params: Params{Link: &IBSDR, Storage: Storage{name: "brittle", build: func(e storageEnv) (built, error) {
			if n++; n == 2 {
				panic("broken")
			}
			return Memory().build(e)
		}}},
		Load:    Load{Calls: 4, Size: 4096, FileSize: 4096},
		Knobs:   []Knob{{"ORD", "1,2,4"}},
		Workers: 1,
	}
	r, err := SweepAll(t.Context(), m)
	require.NoError(t, err)
	require.Len(t, r.Failed(), 1)
	assert.Equal(t, "panic: broken", r.Failed()[0].Error)
	assert.Equal(t, 1, r.Failed()[0].Index)
}

func TestSweepDefinition(t *testing.T) {
	base := Matrix{Params: Params{Seed: 1}, Load: Load{Calls: 4}, Knobs: []Knob{{"ORD", "1,2..4"}}, Counters: []string{"rdma_stat_read"}}
	hash := func(change func(m *Matrix)) string {
		m := base
		change(&m)
		s, err := m.define()
		require.NoError(t, err)
		return s.hash
	}
	want := hash(func(*Matrix) {})
	for name, change := range map[string]func(m *Matrix){
		"another way to say it": func(m *Matrix) { m.Knobs = []Knob{{"max_outbound_read_requests", "1..4"}} },
		"workers":               func(m *Matrix) { m.Workers = 3 },
		"shard":                 func(m *Matrix) { m.Shard = Shard{1, 2} },
		"trace":                 func(m *Matrix) { m.Params.Trace = true },
		"device":                func(m *Matrix) { m.Params.Device = Softroce },
	} {
		assert.Equal(t, want, hash(change), name)
	}
	link, same := IBSDR, IBSDR
	assert.Equal(t, hash(func(m *Matrix) { m.Params.Link = &link }), hash(func(m *Matrix) { m.Params.Link = &same }), "what it points to counts")
	for name, change := range map[string]func(m *Matrix){
		"seed":            func(m *Matrix) { m.Params.Seed = 2 },
		"a parameter":     func(m *Matrix) { m.Params.IRD = 2 },
		"personality":     func(m *Matrix) { m.Params.Personality = softroce.T310 },
		"sizes":           func(m *Matrix) { m.Load.Sizes = []int{1, 2} },
		"a link":          func(m *Matrix) { m.Params.Link = &link },
		"the load":        func(m *Matrix) { m.Load.Calls = 5 },
		"storage":         func(m *Matrix) { m.Params.Storage = Sink() },
		"a value":         func(m *Matrix) { m.Knobs = []Knob{{"ORD", "1..5"}} },
		"another knob":    func(m *Matrix) { m.Knobs = []Knob{{"IRD", "1..4"}} },
		"order of values": func(m *Matrix) { m.Knobs = []Knob{{"ORD", "4,1,2,3"}} },
		"counters":        func(m *Matrix) { m.Counters = nil },
		"note":            func(m *Matrix) { m.Note = "x" },
	} {
		assert.NotEqual(t, want, hash(change), name)
	}
}

func TestMatrixErrors(t *testing.T) {
	ok := Matrix{Load: Load{Calls: 1}, Knobs: []Knob{{"ORD", "1"}}}
	for _, c := range []struct {
		want   string
		change func(m *Matrix)
	}{
		{"Params.Live is true, must be false", func(m *Matrix) { m.Params.Live = true }},
		{"Params.Device is rxe0, must be softroce", func(m *Matrix) { m.Params.Device = "rxe0" }},
		{"Load.Mount is set", func(m *Matrix) { m.Load.Mount = &Mount{} }},
		{"no knobs to turn", func(m *Matrix) { m.Knobs = nil }},
		{"Shard is 4/3, must be", func(m *Matrix) { m.Shard = Shard{3, 3} }},
		{"knob ORD (max_outbound_read_requests) comes twice", func(m *Matrix) { m.Knobs = append(m.Knobs, Knob{"ord", "2"}) }},
		{"more than 1048576 cells", func(m *Matrix) { m.Knobs = []Knob{{"ORD", "1..2000"}, {"IRD", "1..2000"}} }},
		{"no counter \"read_chunk_cuont\"; did you mean read_chunk_count", func(m *Matrix) { m.Counters = []string{"read_chunk_cuont"} }},
		{"counter \"server.rdma_stat_read\" comes twice", func(m *Matrix) { m.Counters = []string{"server.rdma_stat_read", "server.rdma_stat_read"} }},
		{"no counter \"client.rdma_stat_read\"", func(m *Matrix) { m.Counters = []string{"client.rdma_stat_read"} }},
	} {
		m := ok
		c.change(&m)
		_, err := SweepAll(t.Context(), m)
		assert.ErrorContains(t, err, c.want)
	}
	t.Setenv("NFSRDMA_DEVICE", "rxe0") // a sweep is in virtual time all the same
	r, err := SweepAll(t.Context(), ok)
	require.NoError(t, err)
	assert.Empty(t, r.Failed())
}
