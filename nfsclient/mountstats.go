package nfsclient

import (
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
)

// namlen is what Linux has for a server that it has not asked (NFS3_MAXNAMLEN).
const namlen = 255

// MountStats writes the mount's statistics as Linux shows them in /proc/self/mountstats (statvers 1.1). There is no
// cache here, so events but delay are 0, and all data is that of direct I/O; bklog_u counts the calls that found no slot free,
// and max_slots is the slots that there are.
func (m *Mount) MountStats(w io.Writer) error {
	var b strings.Builder
	host, port, _ := net.SplitHostPort(m.cfg.Addr)
	fmt.Fprintf(&b, "device %s:%s mounted on %s with fstype nfs statvers=1.1\n", escape(host), escape(m.cfg.Export), escape(m.cfg.Export))
	fmt.Fprintf(&b, "\topts:\trw,%s\n", m.mountOptions(host, port))
	fmt.Fprintf(&b, "\tage:\t%d\n", m.s.Now().Sub(m.since)/sched.Second)
	fmt.Fprintf(&b, "\tcaps:\tcaps=0x0,wtmult=%d,dtsize=%d,bsize=0,namlen=%d\n", m.fsinfo.WtMult, m.dtsize, namlen)
	flavor := uint32(rpc.AUTH_SYS)
	if m.cfg.Cred.None {
		flavor = uint32(rpc.AUTH_NONE)
	}
	fmt.Fprintf(&b, "\tsec:\tflavor=%d", flavor)
	if flavor != 0 {
		fmt.Fprintf(&b, ",pseudoflavor=%d", flavor)
	}
	c := m.Counters()
	r, wr := counter(c, "serverreadbytes"), counter(c, "serverwritebytes")
	fmt.Fprintf(&b, "\n\tevents:\t%s\n", strings.Repeat("0 ", 24)+fmt.Sprint(m.Delays())+" 0 0 ")
	fmt.Fprintf(&b, "\tbytes:\t0 0 %d %d %d %d 0 0 \n", r, wr, r, wr)
	fmt.Fprintf(&b, "\tRPC iostats version: 1.1  p/v: %d/%d (nfs)\n", nfs3.Program, nfs3.Version)
	fmt.Fprintf(&b, "\txprt:\t%s\n", m.xprtLine(c))
	b.WriteString("\tper-op statistics\n")
	for _, o := range m.OpStats() {
		fmt.Fprintf(&b, "\t%12s: %d %d %d %d %d %d %d %d %d\n", o.Op, o.Ops, o.Transmissions, o.Timeouts, o.BytesSent, o.BytesReceived,
			o.Queue/time.Millisecond, o.RTT/time.Millisecond, o.Execute/time.Millisecond, o.Errors)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// escape puts what would end a field as the kernel does, in octal.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c == '\\' {
			fmt.Fprintf(&b, "\\%03o", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func (m *Mount) mountOptions(host, port string) string {
	c := &m.cfg
	hard := "hard"
	if c.Soft {
		hard = "soft"
	}
	proto := "rdma"
	if c.Proto == TCP {
		proto = "tcp"
	}
	sec := "sys"
	if c.Cred.None {
		sec = "null"
	}
	return fmt.Sprintf("vers=3,rsize=%d,wsize=%d,namlen=%d,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0,%s,noac,nolock,noacl,proto=%s,port=%s,timeo=%d,retrans=%d,sec=%s,mountaddr=%s,mountvers=3,local_lock=all",
		m.rsize, m.wsize, namlen, hard, proto, port, c.Timeout/(100*time.Millisecond), c.Retrans, sec, escape(host))
}

// xprtOrder are the fields of the line "xprt:" (net/sunrpc/xprtrdma/transport.c, net/sunrpc/xprtsock.c); what is
// not counted is 0.
var xprtOrder = map[Proto]string{
	RDMA: "port bind_count connect_count connect_time idle_time sends recvs bad_xids req_u bklog_u " +
		"read_chunk_count write_chunk_count reply_chunk_count total_rdma_request total_rdma_reply pullup_copy_count " +
		"fixup_copy_count hardway_register_count failed_marshal_count bad_reply_count nomsg_call_count " +
		"mrs_recycled mrs_orphaned mrs_allocated local_inv_needed empty_sendctx_q reply_waits_for_send",
	TCP: "port bind_count connect_count connect_time idle_time sends recvs bad_xids req_u bklog_u max_slots sending_u pending_u",
}

func (m *Mount) xprtLine(c []verbs.Counter) string {
	proto := "rdma"
	if m.cfg.Proto == TCP {
		proto = "tcp"
		c = append(c, verbs.Counter{Name: "max_slots", Value: uint64(m.cfg.Credits)})
	}
	var b strings.Builder
	b.WriteString(proto)
	for _, name := range strings.Fields(xprtOrder[m.cfg.Proto]) {
		fmt.Fprintf(&b, " %d", counter(c, name))
	}
	return b.String()
}

// counter is the counter of a name, 0 if there is none.
func counter(all []verbs.Counter, name string) uint64 {
	for i := range all {
		if all[i].Name == name {
			return all[i].Value
		}
	}
	return 0
}
