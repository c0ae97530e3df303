package nfsclient_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/nfsserver/memfs"
	"example.org/nfsrdma/verbs/softroce"
)

// A server and a client in one program, joined by soft-RoCE in virtual time.
func Example() {
	ctx := context.Background()
	s := sched.NewVirtual(1)
	net := softroce.NewNetwork(s, softroce.NetConfig{})
	sdev, _ := net.NewDevice("server", softroce.RoCE)
	cdev, _ := net.NewDevice("client", softroce.RoCE)
	srv, _ := nfsserver.New(nfsserver.Config{Device: sdev, Sched: s, Exports: []nfsserver.Export{{FS: memfs.New(memfs.Options{})}}})

	m, err := nfsclient.New(ctx, nfsclient.Config{Device: cdev, Sched: s, Addr: "server:20049", MaxDataSegs: 16})
	if err != nil {
		fmt.Println(err)
		return
	}
	n := m.Negotiated()
	fmt.Println("rsize", n.RSize, "limited by", n.RSizeLimit)

	if err := m.MkdirAll(ctx, "dir", 0o755); err != nil {
		fmt.Println(err)
	}
	if err := m.WriteFile(ctx, "dir/file", make([]byte, 100_000), 0o644); err != nil {
		fmt.Println(err)
	}
	i, err := m.Stat(ctx, "dir/file")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(i)
	_, err = m.ReadFile(ctx, "nothing")
	fmt.Println(errors.Is(err, fs.ErrNotExist), err)
	for _, c := range m.Counters() {
		if c.Name == "read_chunk_count" {
			fmt.Println(c.Name, c.Value)
		}
	}

	m.Close()
	srv.Close()
	cdev.Close()
	sdev.Close()
	net.Close()
	s.Close()
	// Output:
	// rsize 65536 limited by MaxDataSegs
	// -rw-r--r-- 100000 1970-01-01 00:00:00 file
	// true open nothing: LOOKUP "nothing": NFS3ERR_NOENT
	// read_chunk_count 2
}
