package fabric_test

import (
	"testing"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsclient"
)

// The example of the README and of the package's doc.
func TestWriteThroughput(t *testing.T) {
	f := fabric.New(t, fabric.Params{
		MaxDataSegs: 16, IRD: 16, ORD: 16, RegMode: nfsclient.AllPhysical, Link: &fabric.IBSDR,
	})
	m := f.Mount(t, "/")
	m.WriteFile(t, "a", []byte("hello"))
	got := f.Run(t, fabric.Load{Op: fabric.Write, Size: 64 << 10, Depth: 16, Bytes: 64 << 20, Verify: true})
	got.WantThroughput(t, fabric.Between(900*fabric.MBps, 970*fabric.MBps))
	got.Client.Want(t, "read_chunk_count=16384 nomsg_call_count=0")
}
