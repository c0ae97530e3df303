package scenarios

import (
	"fmt"

	"example.org/nfsrdma/fabric"
)

// segTCP is NFS over TCP through the host's stack, on the same 10G Ethernet.
var segTCP = &segTransport{
	name: "tcp", tcp: true, link: segEthernet, o: segIWARP, extra: segHost, wire: segEthernet.PayloadRate(),
}

// segEthernet is 10 Gb/s Ethernet with frames of 1500 bytes: 1177 MB/s of TCP payload.
var segEthernet = fabric.Link{
	Name: "10GbE", BitsPerSecond: 10e9, MTU: 1448, Overhead: 90, Delay: fabric.IWARP10G.Delay,
}

// segTCPRate is what was reported, MB/s.
const segTCPRate = 105

// overTCP is c as a mount over TCP: nothing there is about segments.
func (c segCell) overTCP(p fabric.Params) fabric.Params {
	p.Proto, p.MaxDataSegs, p.IRD, p.ORD, p.SQDepth = fabric.TCP, 0, 0, 0, 0
	p.RegMode = 0
	return p
}

// tcp compares the host's stack with both RDMA transports.
func (s *segReport) tcp() {
	tcp := segTCP.base(16)
	rate := s.run(tcp).rate / fabric.MBps
	row := band("first run", tcp.label(), value(segTCPRate), rate, segTCPRate*0.95, segTCPRate*1.05, "MB/s")
	s.add(row)
	s.add(band("wsize", tcp.label(), nil, float64(s.run(tcp).wsize), 64<<10, 64<<10, "B"))
	for _, tr := range segTransports {
		for _, segs := range []int{8, 16} {
			c := tr.base(segs)
			row := band("TCP over "+tr.name, map[string]string{"segs": fmt.Sprint(segs)}, value(segTCPRate/tr.first[segs]),
				rate*fabric.MBps/s.run(c).rate, -inf, 0.9999, "")
			row.Note = "want below 1: TCP is slower than both"
			s.add(row)
		}
	}
	// The order does not hang on the fit: o and the time of a byte 20 % either way.
	for _, k := range [][2]float64{{0.8, 1}, {1.2, 1}, {1, 0.8}, {1, 1.2}} {
		a, b := segTCP.base(16), segTransports[0].base(8)
		a.scaleO, a.scaleS = k[0], k[1]
		p := map[string]string{"o": fmt.Sprintf("x%g", k[0]), "s": fmt.Sprintf("x%g", k[1]), "segs": "8"}
		row := band("TCP over ib, perturbed", p, nil, s.run(a).rate/s.run(b).rate, -inf, 0.9999, "")
		row.Note = "want below 1: the direction holds"
		s.add(row)
	}
}
