package fabric

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/tcpsim"
	"example.org/nfsrdma/internal/xprt/stream"
	"example.org/nfsrdma/internal/xprt/stream/tcpnet"
	"example.org/nfsrdma/nfsclient"
	"example.org/nfsrdma/nfsserver"
)

// Transports of Params.Proto.
const (
	RDMA = nfsclient.RDMA
	TCP  = nfsclient.TCP
)

// Policies of Params.SndPolicy: when the send buffer lets the server take the next call (svc_tcp_has_wspace).
const (
	NoSpace  = nfsserver.NoSpace  // unless a reply waits for room; today's Linux
	Locked   = nfsserver.Locked   // a locked buffer for all threads; Linux to 2.6.29
	Auto     = nfsserver.Auto     // a buffer of four calls, autotuned; Linux 2.6.30-rc1
	No23     = nfsserver.No23     // as Auto, without the rule that a third of the buffer must be free
	R2M      = nfsserver.R2M      // as No23, but the next call need not fit twice, and R counts once
	RM       = nfsserver.RM       // as R2M, the next call counts once too
	Deferred = nfsserver.Deferred // as Auto, but calls that wait count as reserved: it hangs
	Clamp    = nfsserver.Clamp    // as Auto, when TCP has cut the buffer to WMem
)

// Over lets a mount go over a transport of its own:
//
//	m := f.Mount(t, "/", fabric.Over(fabric.TCP))
func Over(p nfsclient.Proto) func(*nfsclient.Config) {
	return func(c *nfsclient.Config) { c.Proto = p }
}

// tcp is what RPC over TCP runs on.
type tcp struct {
	net   stream.Network
	model *tcpnet.Network // nil: sockets
	addr  string          // of the server; "" no TCP. Its port is 0 until the server listens
}

// openTCP makes the network: sockets of the loopback interface when live, a model otherwise.
func (p *Params) openTCP(s *sched.Sched) (t tcp, err error) {
	if p.Proto == TCP {
		p.TCP = true
	}
	modelled := p.SndPolicy != NoSpace || p.SndBuf != 0 || p.WMem != 0 || p.TCPWindow != 0 || p.DelayedAck != 0 || p.Nagle
	switch {
	case p.Proto > TCP:
		return t, &LimitError{"Proto (proto)", p.Proto, "rdma or tcp"}
	case !p.TCP && modelled:
		return t, fmt.Errorf("fabric: SndPolicy, SndBuf, WMem, TCPWindow, DelayedAck and Nagle are for TCP: set Proto or TCP")
	case !p.TCP:
		return t, nil
	case p.Live && modelled:
		return t, fmt.Errorf("fabric: SndPolicy, SndBuf, WMem, TCPWindow, DelayedAck and Nagle are of the model: live, the kernel decides")
	case p.Live:
		return tcp{net: stream.Sockets{}, addr: "127.0.0.1:0"}, nil
	}
	for _, k := range []struct {
		name      string
		v, lo, hi int64
		unit      string
	}{
		{"SndPolicy", int64(p.SndPolicy), 0, int64(Clamp), "a policy of this package"},
		{"SndBuf (SO_SNDBUF)", int64(p.SndBuf), 4096, 1 << 30, "bytes"},
		{"WMem (tcp_wmem)", int64(p.WMem), 4096, 1 << 30, "bytes"},
		{"TCPWindow (tcp_rmem)", int64(p.TCPWindow), 4096, 1 << 30, "bytes"},
		{"DelayedAck (TCP_DELACK_MIN) in ns", int64(p.DelayedAck), 1, int64(time.Minute), "ns"},
	} {
		if k.v != 0 && (k.v < k.lo || k.v > k.hi) {
			return t, &LimitError{k.name, k.v, fmt.Sprintf("%d to %d, %s; 0 is the default", k.lo, k.hi, k.unit)}
		}
	}
	t.model, err = tcpnet.New(s, tcpnet.Config{Link: p.Link, TCP: tcpsim.Config{
		SndBuf: defaultWMem, Window: orDefault(p.TCPWindow, defaultRMem), DelayedAck: p.DelayedAck, Nagle: p.Nagle,
	}})
	if err != nil {
		return t, fmt.Errorf("fabric: TCP: %w", err)
	}
	t.net, t.addr = t.model, net.JoinHostPort("server", strconv.Itoa(nfsserver.PortTCP))
	return t, nil
}

// What tuning leads to on a path that needs it, bytes.
const (
	defaultWMem = 4 << 20 // tcp_wmem[2]
	defaultRMem = 6 << 20 // tcp_rmem[2]
)

func orDefault(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

// serve adds TCP to a server's configuration.
func (t *tcp) serve(c *nfsserver.Config, p *Params) {
	if t.addr != "" {
		c.TCP, c.Net = []string{t.addr}, t.net
		c.Gate = nfsserver.SendGate{Policy: p.SndPolicy, SndBuf: p.SndBuf, WMem: p.WMem}
	}
}

// overTCP makes c a mount over TCP.
func (f *Fabric) overTCP(c *nfsclient.Config) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tcp.addr == "" {
		return fmt.Errorf("fabric: a mount over TCP: set Params.TCP")
	}
	c.Device, c.Addr, c.Net = nil, f.tcp.addr, f.tcp.net
	return nil
}

// listens notes the server's port; the next server listens there too.
func (f *Fabric) listens(srv *nfsserver.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := srv.TCPAddrs(); len(a) > 0 {
		f.tcp.addr = a[0]
	}
}

// disconnectTCP ends the connections of mounts over TCP, at either end.
func (f *Fabric) disconnectTCP(side faults.Side) bool {
	f.mu.Lock()
	mounts, srv := slices.Clone(f.mounts), f.server
	f.mu.Unlock()
	n := 0
	for _, m := range mounts {
		if m.nfs.Negotiated().Proto == TCP {
			n++
			if side == faults.Client {
				m.nfs.Disconnect()
			}
		}
	}
	if n > 0 && side == faults.Server {
		srv.Disconnect()
	}
	return n > 0
}

func (t *tcp) close() {
	if t.model != nil {
		t.model.Close()
	}
}
