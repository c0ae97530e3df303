package rpcrdma_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"example.org/nfsrdma/internal/rpcrdma"
	"example.org/nfsrdma/internal/xdr"
)

func FuzzConsumeHeader(f *testing.F) {
	for _, c := range headerCases() {
		f.Add(c.Bytes(), 0)
		f.Add(c.Bytes(), 2)
	}
	for _, line := range readLines(f, "testdata/linux.txt") {
		if tag, rest, _ := strings.Cut(line, " "); tag == ">" || tag == "<" {
			b, _ := hex.DecodeString(rest)
			f.Add(b, 64)
		}
	}
	var h rpcrdma.Header
	f.Fuzz(func(t *testing.T, b []byte, maxSegs int) {
		n, err := rpcrdma.ConsumeHeader(b, &h, maxSegs)
		_ = h.String()
		segs := len(h.Reads) + h.Writes.Segments() + len(h.Reply)
		if segs > len(b)/16 || maxSegs > 0 && segs > maxSegs {
			t.Fatalf("%d segments of %d bytes, limit %d", segs, len(b), maxSegs)
		}
		if err != nil {
			var e *xdr.Error
			if n != -1 || !errors.As(err, &e) || e.Off > len(b) {
				t.Fatalf("%d, %v", n, err)
			}
			rpcrdma.ErrorReply(&h, err)
			return
		}
		if again := rpcrdma.AppendHeader(nil, &h); string(again) != string(b[:n]) || rpcrdma.HeaderLen(&h) != n {
			t.Fatalf("%x became %x", b[:n], again)
		}
	})
}

func FuzzConsumePrivateData(f *testing.F) {
	f.Add(rpcrdma.AppendPrivateData(nil, rpcrdma.DefaultPrivateData))
	f.Add([]byte("\xf6\xab\x0e\x18\x01\x01\x03\x03"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := rpcrdma.ConsumePrivateData(b)
		if !ok && p != rpcrdma.DefaultPrivateData {
			t.Fatalf("%v", p)
		}
		if again, _ := rpcrdma.ConsumePrivateData(rpcrdma.AppendPrivateData(nil, p)); again != p {
			t.Fatalf("%v became %v", p, again)
		}
	})
}
