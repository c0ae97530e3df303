package nfs3

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestLinuxReaddirplus takes a result of Linux 6.1 apart. It is the first of those for a directory
// with 500 names of 200 characters, cut behind the third entry.
func TestLinuxReaddirplus(t *testing.T) {
	text, err := os.ReadFile("testdata/linux-readdirplus.txt")
	require.NoError(t, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	var res ReaddirplusRes
	n, err := ConsumeReaddirplusRes(b, &res)
	require.NoError(t, err)
	assert.Equal(t, len(b), n)
	assert.Equal(t, b, AppendReaddirplusRes(nil, &res))
	assert.False(t, res.EOF)
	var names []string
	var e EntryPlus
	for l := res.Entries; l.Next(&e); {
		names = append(names, fmt.Sprintf("%.8s %d %d %v %v", e.Name, e.FileID, e.Cookie, e.Attr.Attr.Type, &e.FH))
	}
	assert.Equal(t, []string{
		". 2 1 DIR 0100010100000000799531470200000000000000",
		".. 1 2 DIR 0100010000000000",
		"file-599 502 3 REG 0100010100000000dc398976f601000000000000",
	}, names)
}

func TestEntryListNext(t *testing.T) {
	l := entries(dot, dotdot)
	cursor := l
	var e Entry
	require.True(t, cursor.Next(&e))
	assert.Equal(t, dot, e)
	require.True(t, cursor.Next(&e))
	assert.Equal(t, dotdot, e)
	assert.False(t, cursor.Next(&e))
	assert.Equal(t, entries(dot, dotdot), l, "the list stays")
	for i := range l {
		for cut := l[:i]; cut.Next(&e); {
			require.Equal(t, dot, e, "cut to %d bytes", i)
		}
	}
	assert.Equal(t, `[".":2@1 "..":1@2]`, l.String())
}

// TestEntryLens wants the lengths that a server plans with to be those that come out.
func TestEntryLens(t *testing.T) {
	for n := range 9 {
		e := EntryPlus{Entry: Entry{Name: make([]byte, n)}}
		assert.Len(t, AppendEntry(nil, &e.Entry), EntryLen(n))
		assert.Len(t, AppendEntryPlus(nil, &e), EntryPlusLen(&e))
		e.Attr.Present = true
		assert.Len(t, AppendEntryPlus(nil, &e), EntryPlusLen(&e))
		e.FH = PostOpFH{Present: true, FH: fh("odd"[:n%4])}
		assert.Len(t, AppendEntryPlus(nil, &e), EntryPlusLen(&e))
	}
}

// TestDirWriter fills results of every size up to one that holds all, and wants each to be as full
// as its count allows.
func TestDirWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Uint32Range(0, 600).Draw(t, "count")
		head := ReaddirRes{Verf: verf, DirAttr: postAttr}
		if rapid.Bool().Draw(t, "no attributes") {
			head.DirAttr = PostOpAttr{}
		}
		const prefix = "RPC header"
		w := NewDirWriter([]byte(prefix), &head, count)
		var want EntryList
		eof := true
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 60), 0, 20).Draw(t, "names") {
			e := Entry{FileID: uint64(i), Cookie: uint64(i + 1), Name: []byte(strings.Repeat("n", n))}
			if !w.Add(&e) {
				used := len(AppendReaddirRes(nil, &ReaddirRes{DirAttr: head.DirAttr, Entries: want})) - 4
				require.Greater(t, used+EntryLen(n), int(count), "refused though it fits")
				eof = false
				break
			}
			want = AppendEntry(want, &e)
		}
		b := w.Finish(eof)
		require.Equal(t, prefix, string(b[:len(prefix)]))
		var got ReaddirRes
		n, err := ConsumeReaddirRes(b[len(prefix):], &got)
		require.NoError(t, err)
		require.Equal(t, len(b)-len(prefix), n)
		if w.Entries() > 0 {
			require.LessOrEqual(t, n-4, int(count), "the status word does not count")
		}
		require.Equal(t, string(want), string(got.Entries))
		require.Equal(t, eof, got.EOF)
		require.Equal(t, verf, got.Verf)
		require.Equal(t, head.DirAttr, got.DirAttr)
	})
}

func TestDirPlusWriter(t *testing.T) {
	e := EntryPlus{Entry: Entry{Name: []byte("name"), Cookie: 1}, Attr: postAttr, FH: newFH}
	fill := func(dirCount, maxCount uint32) (entries, bytes int) {
		w := NewDirPlusWriter(nil, &ReaddirplusRes{DirAttr: postAttr}, dirCount, maxCount)
		for range 10 {
			if !w.Add(&e) {
				break
			}
		}
		var got ReaddirplusRes
		n, err := ConsumeReaddirplusRes(w.Finish(false), &got)
		require.NoError(t, err)
		var next EntryPlus
		list := 0
		for l := got.Entries; l.Next(&next); list++ {
			assert.Equal(t, e, next)
		}
		assert.Equal(t, w.Entries(), list)
		return list, n - 4
	}
	const head = PostOpAttrMax + VerfLen + 8
	size, dirSize := uint32(EntryPlusLen(&e)), uint32(EntryLen(4))
	for _, c := range []struct {
		dirCount, maxCount uint32
		want               int
	}{
		{1 << 20, 1 << 20, 10},
		{1 << 20, head + 3*size, 3},
		{1 << 20, head + 3*size - 1, 2},
		{1 << 20, head + size - 1, 0},
		{1 << 20, 0, 0},
		{4 * dirSize, 1 << 20, 4},
		{4*dirSize - 1, 1 << 20, 3},
		{0, 1 << 20, 1}, // a wish that one entry may exceed
		{1<<32 - 1, 1<<32 - 1, 10},
	} {
		got, bytes := fill(c.dirCount, c.maxCount)
		assert.Equal(t, c.want, got, "dircount %d maxcount %d", c.dirCount, c.maxCount)
		if got > 0 {
			assert.LessOrEqual(t, bytes, int(c.maxCount))
		}
	}
}

func TestDirWriterAllocs(t *testing.T) {
	buf := make([]byte, 0, 4096)
	var res ReaddirplusRes
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		w := NewDirPlusWriter(buf[:0], &ReaddirplusRes{DirAttr: postAttr}, 4096, 4096)
		e := EntryPlus{Entry: dot, Attr: postAttr, FH: newFH}
		for w.Add(&e) {
		}
		if _, err := ConsumeReaddirplusRes(w.Finish(true), &res); err != nil || w.Entries() < 10 {
			t.Fatal(err, w.Entries())
		}
		for l := res.Entries; l.Next(&e); {
		}
	}))
}
