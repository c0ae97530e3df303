package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCellLine(t *testing.T) {
	c := testCells(t)[1]
	line, err := AppendCell([]byte("before "), &c)
	require.NoError(t, err)
	assert.Equal(t, `before {"sweep":"feedc0de00000001","cell":1,"of":24,"seed":1001,"params":{"Op":"write","ORD":1,"RegMode":"fastreg","Link.Delay":"2µs"},`+
		`"size":65536,"calls":100,"bytes":6553600,"elapsed_ns":131072000,"bytes_per_s":50000000,"calls_per_s":762.939453125,`+
		`"latency":{"mean_ns":1000000,"p50_ns":1000000,"p90_ns":2000000,"p99_ns":2000001,"max_ns":3000000},`+
		`"bound":{"resource":"the load's depth of 16","knob":"<Link>","busy":0.987,"waited":0.25},`+
		`"why":"bound by the load's depth of 16: \"busy\" & <so on>","counters":{"read_chunk_count":100,"z":0}}`+"\n", string(line))
}

// What is read and written again is the same, from either JSON form.
func TestReadBack(t *testing.T) {
	cells := testCells(t)
	for _, write := range []func(io.Writer, []Cell) error{WriteJSON, WriteJSONL} {
		var b bytes.Buffer
		require.NoError(t, write(&b, cells))
		got, err := ReadCells(bytes.NewReader(b.Bytes()))
		require.NoError(t, err)
		require.Equal(t, cells, got)
		var again bytes.Buffer
		require.NoError(t, write(&again, got))
		require.Equal(t, b.String(), again.String())
	}
	var b bytes.Buffer
	require.NoError(t, WriteJSON(&b, cells))
	var d struct {
		Knobs map[string][]any
		Cells []map[string]any
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &d))
	assert.Equal(t, []any{1.0, 2.0, 4.0, 16.0}, d.Knobs["ORD"])
	assert.Len(t, d.Cells, 24)
}

func TestReadTorn(t *testing.T) {
	var b bytes.Buffer
	cells := testCells(t)[:3]
	require.NoError(t, WriteJSONL(&b, cells))
	whole := b.Bytes()
	ends := []int{0}
	for i, x := range whole {
		if x == '\n' {
			ends = append(ends, i+1)
		}
	}
	for cut := range whole {
		n := 0
		for ends[n+1] <= cut {
			n++
		}
		got, err := ReadCells(bytes.NewReader(whole[:cut]))
		require.Len(t, got, n, "cut at %d", cut)
		var torn *TornError
		if cut == ends[n] {
			require.NoError(t, err)
			continue
		}
		require.True(t, errors.As(err, &torn), "cut at %d: %v", cut, err)
		assert.EqualValues(t, ends[n], torn.At)
	}
}

func TestReadGarbage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"hello\n", "line 1: not a cell"},
		{"{}\n", "line 1: not a cell of a sweep"},
		{"null\n", "not a cell of a sweep"},
		{`{"sweep":"a","cell":5,"of":5}` + "\n", "cell 5 of 5"},
		{`{"sweep":"a","cell":-1,"of":5}` + "\n", "cell -1 of 5"},
		{`{"sweep":"a","cell":0,"of":5}` + "\n", "it has no knobs"},
		{`{"sweep":"a","cell":0,"of":5,"params":{"x":1,"x":2}}` + "\n", `knob "x" twice`},
		{`{"sweep":"a","cell":0,"of":5,"params":{"x":1},"latency":{"p99_ns":-1}}` + "\n", "negative"},
		{`{"sweep":"a","cell":0,"of":5,"params":{"x":1}}` + "\n" + `{"sweep":"a","cell":1,"of":5,"params":{"y":1}}` + "\n", "cell 1 has other knobs (y=1) than cell 0 (x=1)"},
		{`{"sweep":"a","cell":0,"of":5,"params":[1]}` + "\n", "is not an object"},
		{`{"sweep":"a","cell":0,"of":5,"params":{"x":[1]}}` + "\n", `knob "x" is neither number nor name`},
		{`{"sweep":"a","cell":0,"of":5,"params":{"x":null}}` + "\n", "neither number nor name"},
		{`{"sweep":"a","cell":0,"of":5,"counters":{"x":-1}}` + "\n", "invalid syntax"},
		{`{"cells":[{"sweep":"a"}]}`, "cell 0 of 0"},
		{`{"cells":5}`, "cells: "},
		{`{"cells":[]} {}`, "more after the end"},
	} {
		_, err := ReadCells(strings.NewReader(c.in))
		assert.ErrorContains(t, err, c.want, c.in)
	}
}

func FuzzReadCells(f *testing.F) {
	f.Add([]byte(`{"sweep":"a","cell":0,"of":5,"params":{"ORD":1,"m":"x"},"counters":{"c":1}}` + "\n"))
	f.Add([]byte(`{"cells":[{"sweep":"a","cell":0,"of":1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		cells, err := ReadCells(bytes.NewReader(b))
		if err != nil || len(cells) == 0 {
			return
		}
		var out bytes.Buffer
		require.NoError(t, WriteJSONL(&out, cells))
		again, err := ReadCells(&out)
		require.NoError(t, err)
		require.Equal(t, len(cells), len(again))
		for _, format := range Formats() {
			require.NoError(t, Write(io.Discard, format, cells), format)
		}
	})
}

func TestParams(t *testing.T) {
	for _, c := range []struct {
		value, label string
		num          float64
		is           bool
	}{
		{"1", "1", 1, true}, {"65536", "64K", 65536, true}, {"1048576", "1M", 1 << 20, true}, {"3221225472", "3G", 3 << 30, true},
		{"1000", "1000", 1000, true}, {"2µs", "2µs", 2000, true}, {"0.25", "0.25", 0.25, true}, {"-1", "-1", -1, true},
		{"fastreg", "fastreg", 0, false}, {"default", "default", 0, false}, {"true", "true", 0, false},
	} {
		p := Param{"k", c.value}
		assert.Equal(t, c.label, p.Label())
		n, is := p.Number()
		assert.Equal(t, c.is, is, c.value)
		assert.Equal(t, c.num, n, c.value)
	}
	rapid.Check(t, func(t *rapid.T) {
		var p Params
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			p = append(p, Param{rapid.String().Draw(t, "knob"), rapid.OneOf(rapid.String(), rapid.Just("12"), rapid.Just("1e3"), rapid.Just("true"), rapid.Just(`"`)).Draw(t, "value")})
		}
		b, err := json.Marshal(p)
		require.NoError(t, err)
		var got Params
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, p, got)
	})
}

func TestMerge(t *testing.T) {
	cells := testCells(t)
	got, err := Merge([]Piece{{"b", cells[10:]}, {"a", cells[:10]}})
	require.NoError(t, err)
	assert.Equal(t, cells, got)
	_, err = Merge([]Piece{{"a", cells[:3]}, {"b", cells[5:6]}, {"c", cells[20:]}})
	assert.EqualError(t, err, "16 of 24 cells are missing: 3-4, 6-19")
	_, err = Merge([]Piece{{"a", cells}, {"b", cells[5:6]}})
	assert.ErrorContains(t, err, "cell 5 (Op=write ORD=1 RegMode=all-physical Link.Delay=1ms) is double: in a and in b")
	_, err = Merge([]Piece{{"a", nil}})
	assert.ErrorContains(t, err, "no cells")
	other := cells[0]
	other.Sweep = "x"
	_, err = Merge([]Piece{{"a", cells[1:]}, {"b", []Cell{other}}})
	assert.ErrorContains(t, err, "b is of sweep x with 24 cells, a of sweep feedc0de00000001")
}
