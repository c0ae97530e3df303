package link

import (
	"strings"
	"time"
)

// What a frame of Ethernet takes beside its payload: header 14, FCS 4,
// preamble 8, gap 12 (IEEE 802.3).
const ethernet = 14 + 4 + 8 + 12

// What a RoCEv2 packet adds: Ethernet, IPv4 20, UDP 8, BTH 12, ICRC 4 (IBTA annex A17), and 4 for
// extension headers: AETH 4 on most responses, RETH 16 on the first of a message only.
const roceV2 = ethernet + 20 + 8 + 12 + 4 + 4

// What iWARP adds to an IP packet: IPv4 20, TCP 20, MPA length 2 and CRC 4 (RFC 5044,
// without markers), DDP and RDMAP of a tagged segment 14 (RFC 5041 section 4.2, RFC 5040 section 4.1).
const iwarp = 20 + 20 + 2 + 4 + 14

// What TCP adds to an IP packet: IPv4 20, TCP 20, time stamps 12 (RFC 7323).
const tcp = 20 + 20 + 12

// IBSDR is 4X InfiniBand at single data rate, as of an MT25208: 10 Gb/s signalled,
// 8 Gb/s of data after 8b/10b. Full packets carry 970 MB/s (10^6), which is measured on such cards.
var IBSDR = Config{
	Name:          "IBSDR",
	BitsPerSecond: 8e9,                  // InfiniBand specification
	MTU:           2048,                 // the card's largest
	Overhead:      63,                   // fitted to 970 MB/s; LRH, BTH, ICRC and VCRC are 26 of it
	Delay:         2 * time.Microsecond, // assumed
}

// IWARP10G is iWARP on 10 Gb/s Ethernet, as of a T310. Full packets carry 1170 MB/s, and RDMA READs of
// 4096 bytes, one at a time, take 18.4 us each (223 MB/s); both are measured on such cards.
var IWARP10G = Config{
	Name:          "IWARP10G",
	BitsPerSecond: 10e9,
	MTU:           1500 - iwarp,
	Overhead:      ethernet + iwarp,
	// Fitted: 18.4 us less 78 ns for the request and 3512 ns for three packets of response, halved.
	Delay: 7405 * time.Nanosecond,
}

// RoCE25G is RoCEv2 on 25 Gb/s Ethernet with large frames.
var RoCE25G = Config{
	Name:          "RoCE25G",
	BitsPerSecond: 25e9,
	MTU:           4096, // the largest of RoCE
	Overhead:      roceV2,
	Delay:         1500 * time.Nanosecond, // assumed: one switch
}

// RoCE100G is RoCEv2 on 100 Gb/s Ethernet with large frames.
var RoCE100G = Config{
	Name:          "RoCE100G",
	BitsPerSecond: 100e9,
	MTU:           4096, // the largest of RoCE
	Overhead:      roceV2,
	Delay:         time.Microsecond, // assumed: one switch
}

// GbE1 is TCP/IP on 1 Gb/s Ethernet with frames of 1500 bytes: 117.7 MB/s.
var GbE1 = Config{
	Name:          "GbE1",
	BitsPerSecond: 1e9,
	MTU:           1500 - tcp,
	Overhead:      ethernet + tcp,
	Delay:         25 * time.Microsecond, // assumed: two host stacks and a switch
}

func named() []*Config { return []*Config{&GbE1, &IBSDR, &IWARP10G, &RoCE25G, &RoCE100G} }

// Named finds a link of this package by its Name, in any case of letters.
func Named(name string) (Config, bool) {
	for _, c := range named() {
		if strings.EqualFold(c.Name, name) {
			return *c, true
		}
	}
	return Config{}, false
}

// Names lists what Named knows, slowest first.
func Names() []string {
	var names []string
	for _, c := range named() {
		names = append(names, c.Name)
	}
	return names
}
