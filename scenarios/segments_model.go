package scenarios

import (
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/verbs/softroce"
)

// The model of the segments scenario. One law for both transports: a WRITE of w
// bytes takes o + s w under the lock of its file.
const (
	segSlope   = 2584 // ps a byte
	segIB      = 92100 * time.Nanosecond
	segIWARP   = 61300 * time.Nanosecond
	segHost    = 6000 // ps a byte
	segSink    = 0.25
	segDepth   = 16  // WRITEs that dd has in flight: write-behind of the client
	segSlots   = 32  // rdma_slot_table_entries of the day
	segThreads = 64  // nfsd
	segSQ      = 128 // 8 x 16
	segCalls   = 384 // measured, after segWarm; twice as many to the sink, whose completions come in bursts
	segWarm    = 64
)

// segmentsConstants is the table of all constants of the model.
var segmentsConstants = []Constant{
	{"s, copy under the inode lock", 2.584, "ns/B", Fitted("SEGS 8 and 16 of both transports; the local one-writer rate of 365 MB/s agrees within 6 %")},
	{"o, serial cost of a WRITE, IB", 92.1, "us", Fitted("IB SEGS 8 and 16, first runs")},
	{"o, serial cost of a WRITE, iWARP", 61.3, "us", Fitted("iWARP SEGS 8 and 16, first runs")},
	{"o of TCP", 61.3, "us", Assumed},
	{"host's stack, TCP: a byte more, where WRITEs exclude each other", 6.0, "ns/B", Fitted("TCP, WRITEs of 64 KiB (assumed)")},
	{"payload rate of TCP on 10 GbE", 1177, "MB/s", Fitted("10 Gb/s less Ethernet, IP and TCP headers")},
	{"share of o that remains with the sink", segSink, "", Assumed},
	{"payload rate IB SDR", 970, "MB/s", Fitted("8 Gb/s of data less headers")},
	{"payload rate 10G iWARP", 1170, "MB/s", Fitted("10 Gb/s less Ethernet, IP, TCP and DDP headers")},
	{"one-way delay IB", 2, "us", Assumed},
	{"one-way delay iWARP", 7.405, "us", Fitted("one page READ at a time at 223 MB/s")},
	{"WRITEs in flight", segDepth, "", Assumed},
	{"rdma_slot_table_entries", segSlots, "", KernelSource},
	{"nfsd threads", segThreads, "", Reported},
	{"send queue, 8 x 16", segSQ, "", KernelSource},
	{"bs and mount size of dd", 65536, "B", Reported},
}

// segTransport is one of the two networks of the report.
type segTransport struct {
	name        string
	link        fabric.Link
	personality fabric.Personality
	o           time.Duration
	wire        float64 // payload rate, bytes/s
	tcp         bool    // not RDMA
	extra       int     // ps a byte, above segSlope

	first            map[int]float64    // MAX_DATA_SEGS -> MB/s, first run
	later            map[int][2]float64 // range of later runs
	ratio            float64
	ratioLo, ratioHi float64
}

var segTransports = []*segTransport{
	{
		name: "ib", link: fabric.IBSDR, personality: softroce.MT25208, o: segIB, wire: 970 * fabric.MBps,
		first: map[int]float64{8: 185, 16: 250}, later: map[int][2]float64{8: {170, 215}, 16: {255, 275}},
		ratio: 1.351, ratioLo: 1.25, ratioHi: 1.45,
	},
	{
		name: "iwarp", link: fabric.IWARP10G, personality: softroce.T310, o: segIWARP, wire: 1170 * fabric.MBps,
		first: map[int]float64{8: 225, 16: 285}, later: map[int][2]float64{8: {180, 245}, 16: {260, 300}},
		ratio: 1.267, ratioLo: 1.18, ratioHi: 1.37,
	},
}

// law is the model's throughput for WRITEs of w bytes, bounded by the wire.
func (tr *segTransport) law(w int) float64 {
	t := tr.o.Seconds() + float64(w)*segSlope*1e-12
	return min(float64(w)/t, tr.wire)
}
