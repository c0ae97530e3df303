package nfs3

import (
	"testing"

	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xdr/xdrtest"
)

// fuzz feeds every decoder that newMessage has, whole and head, chosen by the first argument.
func fuzz(f *testing.F, cases []xdrtest.Case, newMessage maker) {
	for _, c := range cases {
		for p := range Proc(NumProcs) {
			f.Add(uint32(p), false, c.Bytes())
		}
		f.Add(uint32(WRITE), true, c.Bytes())
		f.Add(uint32(READ), true, c.Bytes())
	}
	f.Fuzz(func(t *testing.T, proc uint32, reduced bool, b []byte) {
		p := Proc(proc % NumProcs)
		m := newMessage(p)
		_ = format(p, newMessage, b, reduced)
		r := xdr.NewReader(b)
		var again []byte
		if h, ok := m.(reducible); ok && reduced {
			again = h.appendHead(nil, h.consumeHead(&r))
		} else {
			m.consume(&r)
			again = m.append(nil)
		}
		n, err := r.Done()
		if (err == nil) != (n >= 0) || n > len(b) {
			t.Fatalf("%d, %v", n, err)
		}
		if err == nil {
			xdrtest.WantRecode(t, b, n, again)
		}
	})
}

func FuzzConsumeArgs(f *testing.F) { fuzz(f, argsCases(), newArgs) }
func FuzzConsumeRes(f *testing.F)  { fuzz(f, resCases(), newRes) }

// FuzzEntryList takes a list that nothing has checked.
func FuzzEntryList(f *testing.F) {
	f.Add([]byte(entries(dot, dotdot)))
	f.Add([]byte(entriesPlus(EntryPlus{Entry: dot, Attr: postAttr, FH: newFH})))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = EntryList(b).String()
		_ = EntryPlusList(b).String()
		var again []byte
		var e EntryPlus
		for l := EntryPlusList(b); l.Next(&e); {
			again = AppendEntryPlus(again, &e)
		}
		xdrtest.WantRecode(t, b, len(again), again)
	})
}
