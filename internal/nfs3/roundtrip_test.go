package nfs3

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xdr/xdrtest"
)

// fill draws each field of v, wire types within what their codec takes.
func fill(t *rapid.T, name string, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *FH:
		*p, _ = MakeFH(rapid.SliceOfN(rapid.Byte(), 0, MaxFHLen).Draw(t, name))
		return
	case *Status:
		*p = rapid.SampledFrom([]Status{NFS3_OK, NFS3_OK, NFS3_OK, NFS3ERR_PERM, 4711}).Draw(t, name)
		return
	case *FType:
		*p = FType(rapid.Uint32Range(1, 7).Draw(t, name))
		return
	case *StableHow, *CreateMode, *TimeHow:
		v.SetUint(uint64(rapid.Uint32Range(0, 2).Draw(t, name)))
		return
	case *EntryList:
		for range rapid.IntRange(0, 4).Draw(t, name) {
			var e Entry
			fill(t, name, reflect.ValueOf(&e).Elem())
			*p = AppendEntry(*p, &e)
		}
		return
	case *EntryPlusList:
		for range rapid.IntRange(0, 4).Draw(t, name) {
			var e EntryPlus
			fill(t, name, reflect.ValueOf(&e).Elem())
			*p = AppendEntryPlus(*p, &e)
		}
		return
	case *[]byte:
		*p = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, name)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(rapid.Byte().Draw(t, name)))
		}
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, name)))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, name))
	default:
		panic(fmt.Sprintf("%s: no generator for %v", name, v.Type()))
	}
}

// maker makes an empty message of a procedure: newArgs or newRes.
type maker = func(Proc) message

// eachMessage runs f for the arguments and the result of every procedure.
func eachMessage(t *testing.T, f func(t *testing.T, p Proc, newMessage maker)) {
	for p := range Proc(NumProcs) {
		t.Run(p.String()+" args", func(t *testing.T) { f(t, p, newArgs) })
		t.Run(p.String()+" result", func(t *testing.T) { f(t, p, newRes) })
	}
}

func TestRoundTrip(t *testing.T) {
	eachMessage(t, func(t *testing.T, p Proc, newMessage maker) {
		again := newMessage(p) // shared, so that what one decode leaves would be found by the next
		rapid.Check(t, func(t *rapid.T) {
			m, got := newMessage(p), newMessage(p)
			fill(t, p.String(), reflect.ValueOf(m).Elem())
			b := m.append(nil)
			for _, v := range []message{got, again} {
				r := xdr.NewReader(append(b, 0xff))
				v.consume(&r)
				n, err := r.Done()
				require.NoError(t, err)
				require.Equal(t, len(b), n)
				require.Equal(t, m.String(), v.String())
				require.Equal(t, string(b), string(v.append(nil)))
			}
			require.Equal(t, got, again)
			wantHead(t, m, b)
		})
	})
}

// wantHead checks the variant without the DDP-eligible item, if m has one; b is the encoding of m.
func wantHead(t *rapid.T, m message, b []byte) {
	full, ok := m.(reducible)
	if !ok {
		return
	}
	n := uint32(0)
	for _, name := range []string{"Data", "Path"} {
		if f := reflect.ValueOf(m).Elem().FieldByName(name); f.IsValid() {
			n = uint32(f.Len())
		}
	}
	if s := reflect.ValueOf(m).Elem().FieldByName("Status"); s.IsValid() && s.Uint() != 0 {
		n = 0
	}
	head := full.appendHead(nil, n)
	require.Equal(t, string(b[:len(b)-xdr.Roundup(int(n))]), string(head))
	r := xdr.NewReader(head)
	require.Equal(t, n, reflect.New(reflect.TypeOf(m).Elem()).Interface().(reducible).consumeHead(&r))
	used, err := r.Done()
	require.NoError(t, err)
	require.Equal(t, len(head), used)
}

// procOf gives the procedure of a case by its name, XArgs or XRes.
func procOf(c xdrtest.Case) Proc {
	for p := range Proc(NumProcs) {
		for _, kind := range []string{"Args", "Res"} {
			if name, _, _ := strings.Cut(c.Name, ","); strings.EqualFold(name, p.String()+kind) {
				return p
			}
		}
	}
	panic("no procedure for " + c.Name)
}

// TestHostileCounts puts lengths that the message cannot hold in the place of every word. A decode
// may then cost its error, and no more.
func TestHostileCounts(t *testing.T) {
	for i, cs := range [][]xdrtest.Case{argsCases(), resCases()} {
		for _, c := range cs {
			b := c.Bytes()
			m := []maker{newArgs, newRes}[i](procOf(c))
			var r xdr.Reader
			for off := 0; off+4 <= len(b); off += 4 {
				for _, v := range []uint32{1 << 28, 1 << 31, math.MaxUint32} {
					bad := append(xdr.AppendUint32(append([]byte(nil), b[:off]...), v), b[off+4:]...)
					if testing.AllocsPerRun(1, func() { r = xdr.NewReader(bad); m.consume(&r) }) != 0 {
						t.Fatalf("%s allocates for %#x at byte %d", c.Name, v, off)
					}
				}
			}
		}
	}
	// The exported functions give an error, which is the one allocation.
	b := xdr.AppendUint32(nil, 1<<31)
	var v LookupArgs
	assert.LessOrEqual(t, testing.AllocsPerRun(10, func() {
		if n, _ := ConsumeLookupArgs(b, &v); n >= 0 {
			t.Fatal("taken")
		}
	}), 1.0)
}

// TestInvalid is about values of a type that has no such value.
func TestInvalid(t *testing.T) {
	for _, c := range []struct {
		name  string
		from  []byte
		off   int
		value uint32
		to    func(b []byte) error
		field string
	}{
		{"handle of 65 bytes", append(AppendGetattrArgs(nil, &GetattrArgs{}), make([]byte, 80)...), 0, 65,
			func(b []byte) error { _, err := ConsumeGetattrArgs(b, &GetattrArgs{}); return err }, "object"},
		{"ftype 0", AppendGetattrRes(nil, &GetattrRes{Attr: attr}), 4, 0,
			func(b []byte) error { _, err := ConsumeGetattrRes(b, &GetattrRes{}); return err }, "type"},
		{"ftype 8", AppendGetattrRes(nil, &GetattrRes{Attr: attr}), 4, 8,
			func(b []byte) error { _, err := ConsumeGetattrRes(b, &GetattrRes{}); return err }, "type"},
		{"post_op_attr 2", AppendAccessRes(nil, &AccessRes{}), 4, 2,
			func(b []byte) error { _, err := ConsumeAccessRes(b, &AccessRes{}); return err }, "obj_attributes"},
		{"stable_how 3", AppendWriteArgs(nil, &WriteArgs{}), 16, 3,
			func(b []byte) error { _, err := ConsumeWriteArgs(b, &WriteArgs{}); return err }, "stable"},
		{"createmode3 3", AppendCreateArgs(nil, &CreateArgs{}), 8, 3,
			func(b []byte) error { _, err := ConsumeCreateArgs(b, &CreateArgs{}); return err }, "mode"},
		{"time_how 3", AppendSetattrArgs(nil, &SetattrArgs{}), 20, 3,
			func(b []byte) error { _, err := ConsumeSetattrArgs(b, &SetattrArgs{}); return err }, "atime"},
		{"entry 2", AppendReaddirRes(nil, &ReaddirRes{}), 16, 2,
			func(b []byte) error { _, err := ConsumeReaddirRes(b, &ReaddirRes{}); return err }, "entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, c.to(c.from))
			err := c.to(append(xdr.AppendUint32(append([]byte(nil), c.from[:c.off]...), c.value), c.from[c.off+4:]...))
			var e *xdr.Error
			require.True(t, errors.As(err, &e))
			assert.Equal(t, c.field, e.Field)
			assert.Equal(t, c.off, e.Off)
		})
	}
}

// wantNoAllocs decodes b as a T and encodes that again.
func wantNoAllocs[T any](t *testing.T, b []byte, consume func([]byte, *T) (int, error), add func([]byte, *T) []byte) {
	t.Helper()
	var v T
	buf := make([]byte, 0, len(b))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := consume(b, &v); err != nil {
			t.Fatal(err)
		}
		buf = add(buf[:0], &v)
	}), "%T", v)
	assert.Equal(t, b, buf)
}

func TestAllocs(t *testing.T) {
	b := map[string][]byte{}
	for _, c := range append(argsCases(), resCases()...) {
		b[c.Name] = c.Bytes()
	}
	wantNoAllocs(t, b["GetattrArgs"], ConsumeGetattrArgs, AppendGetattrArgs)
	wantNoAllocs(t, b["GetattrRes"], ConsumeGetattrRes, AppendGetattrRes)
	wantNoAllocs(t, b["LookupArgs"], ConsumeLookupArgs, AppendLookupArgs)
	wantNoAllocs(t, b["LookupRes"], ConsumeLookupRes, AppendLookupRes)
	wantNoAllocs(t, b["AccessArgs"], ConsumeAccessArgs, AppendAccessArgs)
	wantNoAllocs(t, b["AccessRes"], ConsumeAccessRes, AppendAccessRes)
	wantNoAllocs(t, b["ReadArgs"], ConsumeReadArgs, AppendReadArgs)
	wantNoAllocs(t, b["ReadRes"], ConsumeReadRes, AppendReadRes)
	wantNoAllocs(t, b["WriteArgs"], ConsumeWriteArgs, AppendWriteArgs)
	wantNoAllocs(t, b["WriteRes"], ConsumeWriteRes, AppendWriteRes)
	wantNoAllocs(t, b["CommitArgs"], ConsumeCommitArgs, AppendCommitArgs)
	wantNoAllocs(t, b["CommitRes"], ConsumeCommitRes, AppendCommitRes)
	wantNoAllocs(t, b["ReaddirRes"], ConsumeReaddirRes, AppendReaddirRes)
	wantNoAllocs(t, b["ReaddirplusRes"], ConsumeReaddirplusRes, AppendReaddirplusRes)
	buf := make([]byte, 0, 1024)
	// As the callers use it: the message on the stack.
	read := AppendReadArgs(nil, &ReadArgs{File: fh("file"), Count: 4096})
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		var a ReadArgs
		if _, err := ConsumeReadArgs(read, &a); err != nil {
			t.Fatal(err)
		}
		res := ReadRes{Attr: postAttr, Count: a.Count}
		buf = AppendReadResHead(buf[:0], &res, a.Count)
		if n, _, err := ConsumeReadResHead(buf, &res); err != nil || n != a.Count {
			t.Fatal(n, err)
		}
	}))
}

func BenchmarkConsume(b *testing.B) {
	args := AppendWriteArgsHead(nil, &WriteArgs{File: fh("a handle of twenty b"), Count: 65536}, 65536)
	res := AppendReadResHead(nil, &ReadRes{Attr: postAttr, Count: 65536}, 65536)
	b.Run("WRITE args head", func(b *testing.B) {
		b.ReportAllocs()
		var v WriteArgs
		for b.Loop() {
			if _, _, err := ConsumeWriteArgsHead(args, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("READ result head", func(b *testing.B) {
		b.ReportAllocs()
		var v ReadRes
		for b.Loop() {
			if _, _, err := ConsumeReadResHead(res, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
