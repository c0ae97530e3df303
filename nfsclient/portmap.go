package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xdr"
	"example.org/nfsrdma/internal/xprt/stream"
	"example.org/nfsrdma/internal/xprt/xprttcp"
)

// Programs that Portmap is asked for.
const (
	ProgramNFS   = nfs3.Program
	ProgramMount = mount3.Program
)

// The port mapper (RFC 1833 section 3).
const (
	portmapProgram = 100000
	portmapVersion = 2
	portmapGetport = 3
	portmapPort    = 111
	protoTCP       = 6
)

// ErrNotRegistered is the answer of a port mapper that does not know the program.
var ErrNotRegistered = errors.New("program is not registered with the port mapper")

// Portmap asks the port mapper of a host, given as "host" or "host:port", for the TCP port of version 3 of a program.
// net nil is the machine's sockets.
func Portmap(ctx context.Context, network stream.Network, host string, program uint32) (port int, err error) {
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(host, strconv.Itoa(portmapPort))
	}
	s := sched.NewLive(0)
	defer func() { err = errors.Join(err, s.Close()) }()
	x, err := xprttcp.New(xprttcp.Config{Sched: s, Net: network, Addr: host, Slots: 1, Soft: true, Timeout: sched.FromStd(10 * time.Second)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	if err := x.Connect(ctx); err != nil {
		return 0, fmt.Errorf("port mapper: %w", err)
	}
	head := rpc.AppendCall(nil, &rpc.Call{Prog: portmapProgram, Vers: portmapVersion})
	q, err := getCall(ctx, x, head, portmapGetport)
	if err != nil {
		return 0, err
	}
	defer x.Put(q)
	for _, v := range []uint32{program, nfs3.Version, protoTCP, 0} {
		q.Msg = xdr.AppendUint32(q.Msg, v)
	}
	q.MaxReply = rpc.MaxReplyLen + 4
	body, err := results(ctx, q)
	if err != nil {
		return 0, fmt.Errorf("port mapper: %w", err)
	}
	p, n := xdr.ConsumeUint32(body)
	switch {
	case n < 0 || p > 65535:
		return 0, fmt.Errorf("port mapper: %w: port %d", ErrBadReply, p)
	case p == 0:
		return 0, fmt.Errorf("program %d: %w", program, ErrNotRegistered)
	}
	return int(p), nil
}
