package xdr_test

import (
	"bytes"
	"testing"

	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xdr/xdrtest"
)

// FuzzReader runs a program of reads, one a byte, over the input.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6}, xdr.AppendString(xdr.AppendUint64(xdr.AppendUint32(nil, 1), 2), "abc"))
	f.Add([]byte{3, 3, 5}, bytes.Repeat([]byte{0xff}, 32))
	f.Fuzz(func(t *testing.T, program, b []byte) {
		r := xdr.NewReader(b)
		for _, op := range program {
			off := r.Off()
			var again []byte
			switch op % 7 {
			case 0:
				again = xdr.AppendUint32(nil, r.Uint32("uint32"))
			case 1:
				again = xdr.AppendUint64(nil, r.Uint64("uint64"))
			case 2:
				again = xdr.AppendBool(nil, r.Bool("bool"))
			case 3:
				again = xdr.AppendOpaque(nil, r.Opaque("opaque", int(op)))
			case 4:
				again = xdr.AppendFixedOpaque(nil, r.FixedOpaque("fixed", int(op)))
			case 5:
				n := r.Count("count", 4, int(op))
				if n > r.Len()/4 {
					t.Fatalf("%d elements in %d bytes", n, r.Len())
				}
				again = xdr.AppendUint32(nil, uint32(n))
			case 6:
				again = xdr.AppendUint32(nil, r.Enum("enum", 1, 3))
			}
			if !r.Ok() {
				break
			}
			got := r.Span(off, r.Off())
			xdrtest.WantRecode(t, got, len(got), again)
		}
		if n, err := r.Done(); (err == nil) != (n >= 0) || n > len(b) {
			t.Fatalf("%d, %v", n, err)
		}
	})
}
