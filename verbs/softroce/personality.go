package softroce

import "example.org/nfsrdma/verbs"

// Personality is what kind of device softroce plays: its attributes and what an
// upper layer can notice of its transport.
type Personality struct {
	Name string
	Attr verbs.DeviceAttr
}

// RoCE is the default: a RoCEv2 device with the limits of the kernel's rxe, and
// every feature that the kernel or libibverbs offers.
var RoCE = Personality{Name: "RoCE", Attr: verbs.DeviceAttr{
	Vendor: "softroce", Part: "rxe-like", Transport: verbs.RoCE,
	Caps: verbs.CapMemMgtExtensions | verbs.CapSendWithInv | verbs.CapMemWindow1 | verbs.CapMemWindow2B | verbs.CapLocalDMAKey |
		verbs.CapGlobalKey | verbs.CapRNR | verbs.CapFMR,
	MaxQP: 65536, MaxQPWR: 1 << 20, MaxSGE: 32, MaxSGERd: 32, MaxInline: 1024,
	MaxCQ: 65536, MaxCQE: 1 << 20, MaxMR: maxKeys / 2, MaxMRSize: 1 << 40, MaxPD: 65536,
	MaxSRQ: 65536, MaxSRQWR: 1 << 20, MaxMW: maxKeys / 2,
	MaxQPRdAtom: 128, MaxQPInitRdAtom: 128, MaxFastRegPages: 512, PageSize: verbs.PageSize,
	MaxMsgSize: 1 << 30, ActiveMTU: 4096, MaxConnPrivate: 56, MaxAcceptPrivate: 196,
}}

// MT25208 is a Mellanox InfiniHost III Ex, single data rate InfiniBand, as used
// with Linux 2.6.26. MTU 2048 is the card's default. RDMA READ limits: the card serves 128 of a QP's 4
// by driver default; 32 is allowed here, so that a sweep can turn the knob (assumed).
var MT25208 = Personality{Name: "MT25208", Attr: verbs.DeviceAttr{
	Vendor: "Mellanox", Part: "MT25208", Transport: verbs.IB,
	// Fast registration was measured on it in the report although the card offers FMR: assumed.
	Caps:  verbs.CapMemMgtExtensions | verbs.CapSendWithInv | verbs.CapMemWindow1 | verbs.CapLocalDMAKey | verbs.CapGlobalKey | verbs.CapRNR | verbs.CapFMR,
	MaxQP: 64512, MaxQPWR: 16384, MaxSGE: 30, MaxSGERd: 30, MaxInline: 64,
	MaxCQ: 65408, MaxCQE: 131071, MaxMR: maxKeys / 2, MaxMRSize: 1 << 40, MaxPD: 32768,
	MaxSRQ: 960, MaxSRQWR: 16384, MaxMW: maxKeys / 2,
	MaxQPRdAtom: 32, MaxQPInitRdAtom: 32, MaxFastRegPages: 256, PageSize: verbs.PageSize,
	MaxMsgSize: 1 << 30, ActiveMTU: 2048, MaxConnPrivate: 56, MaxAcceptPrivate: 196,
}}

// T310 is a Chelsio T310, 10 Gb/s iWARP: one SGE a READ, 24 pages a fast
// registration, no receiver-not-ready. 32 outstanding READs are assumed, for sweeps.
// The MTU is the DDP payload of one segment of Ethernet MTU 1500.
var T310 = Personality{Name: "T310", Attr: verbs.DeviceAttr{
	Vendor: "Chelsio", Part: "T310", Transport: verbs.IWARP,
	Caps:  verbs.CapMemMgtExtensions | verbs.CapSendWithInv | verbs.CapMemWindow1 | verbs.CapLocalDMAKey | verbs.CapGlobalKey,
	MaxQP: 32736, MaxQPWR: 16384, MaxSGE: 4, MaxSGERd: 1, MaxInline: 96,
	MaxCQ: 32767, MaxCQE: 8192 * 4, MaxMR: maxKeys / 2, MaxMRSize: 1 << 40, MaxPD: 32767,
	MaxSRQ: 0, MaxSRQWR: 0, MaxMW: maxKeys / 2,
	MaxQPRdAtom: 32, MaxQPInitRdAtom: 32, MaxFastRegPages: 24, PageSize: verbs.PageSize,
	MaxMsgSize: 1 << 30, ActiveMTU: 1408, MaxConnPrivate: 512, MaxAcceptPrivate: 512,
}}

// Personalities lists those with a name.
func Personalities() []Personality { return []Personality{RoCE, MT25208, T310} }
