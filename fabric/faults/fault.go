package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is what goes wrong.
type Kind uint8

// The kinds, by what they happen to.
const (
	// A packet, or with Packet a message of connection management.
	Drop      Kind = iota // it is lost
	Delay                 // it waits for By before the wire; default 100 us
	Duplicate             // it is sent twice
	Corrupt               // it arrives with a wrong ICRC, and is dropped there
	Reorder               // it waits for By, so that others pass it; default 10 us
	RNR                   // a SEND finds no receive

	// A call of the device; it fails with verbs.ErrNoResources.
	RegFail   // RegMR, AllocFastRegMR, AllocMW, AllocFMR, MapDMA
	AllocFail // AllocPD, AllocMR, CreateCQ, CreateQP, CreateSRQ
	PostFail  // a work request is not taken

	// A call of the file system.
	EIO     // it fails with vfs.ErrIO, before it does anything
	ENOSPC  // likewise with vfs.ErrNoSpace
	Jukebox // likewise with vfs.ErrJukebox, which a client answers by trying again later
	Slow    // it waits for By first; default 1 ms

	// Actions, on what a predicate finds or at a time.
	QPError    // a queue pair goes to ERR
	CQOverflow // a completion queue overflows
	Disconnect // a connection ends
	AddrChange // an ID hears of ADDR_CHANGE
	Remove     // a device goes away; it is back after By, 0: never, and the server's with a new server on it
	Crash      // the server loses what is not durable, and is back after By; default 1 ms

	numKinds
)

var kindNames = [numKinds]string{"drop", "delay", "duplicate", "corrupt", "reorder", "rnr", "regfail", "allocfail", "postfail",
	"eio", "enospc", "jukebox", "slow", "qperror", "cqoverflow", "disconnect", "addrchange", "remove", "crash"}

func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Kinds lists the kinds.
func Kinds() []Kind {
	var all []Kind
	for k := range numKinds {
		all = append(all, k)
	}
	return all
}

// Action says whether a kind happens beside the event that triggers it.
func (k Kind) Action() bool { return k >= QPError && k < numKinds }

// CM says whether a fault is looked for at messages of connection management.
func (f *Fault) CM() bool { return f.point() == onCM }

// Dir is the way of a packet.
type Dir uint8

// Directions; the zero value is both.
const (
	AnyDir   Dir = iota
	ToServer     // c->s
	ToClient     // s->c
)

var dirNames = [...]string{"any", "c->s", "s->c"}

// Side is whose device it is.
type Side uint8

// Sides; the zero value is both, and for an action the client's.
const (
	AnySide Side = iota
	Client
	Server
)

var sideNames = [...]string{"any", "client", "server"}

// Fault is a kind of fault, and when it fires: at each event that all its predicates allow. Zero predicates allow all.
type Fault struct {
	Kind   Kind
	Packet string // of this kind: one of PacketNames, CM for any message of connection management; default any other
	Op     string // operation: a procedure of NFSv3 of the file system, an opcode of a work request, a method of the device
	Dir    Dir    // of a packet
	Side   Side   // of a device's call; whose object an action takes

	Nth   int           // only the nth event that the others allow, from 1
	Every int           // each nth of them
	P     float64       // with this probability; 0: always
	From  time.Duration // not before; an action without Packet and Op happens then
	To    time.Duration // not at or after; 0: for ever
	Max   int           // so often at most; 0: without end

	By       time.Duration // how long; see the kinds that take it
	Optional bool          // it may never fire
}

// point is where a fault is looked for.
type point uint8

const (
	onPacket point = iota
	onCM
	onReg
	onAlloc
	onPost
	onFS
	onTime
	numPoints
)

// The operations of each point.
var (
	packetKinds = []string{"SEND", "SEND_INV", "WRITE", "READ_REQUEST", "READ_RESPONSE", "ACK", "NAK"}
	cmKinds     = []string{"CM", "REQ", "REP", "RTU", "REJ", "DREQ"}
	opsOf       = [numPoints][]string{
		onReg:   {"RegMR", "AllocFastRegMR", "AllocMW", "AllocFMR", "MapDMA"},
		onAlloc: {"AllocPD", "AllocMR", "CreateCQ", "CreateQP", "CreateSRQ"},
		onPost:  {"RECV", "SEND", "SEND_WITH_IMM", "SEND_WITH_INV", "RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "RDMA_READ", "LOCAL_INV", "BIND_MW", "REG_MR"},
		onFS: {"GETATTR", "SETATTR", "LOOKUP", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD",
			"REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "FSSTAT", "COMMIT"},
	}
)

// Ops lists the values of Op that a kind knows.
func Ops(k Kind) []string {
	if k.Action() {
		return slices.Concat(opsOf[onFS], opsOf[onPost])
	}
	return slices.Clone(opsOf[(&Fault{Kind: k}).point()])
}

// PacketNames lists the values of Packet.
func PacketNames() []string { return slices.Concat(packetKinds, cmKinds) }

func (f *Fault) point() point {
	switch {
	case slices.Contains(cmKinds, f.Packet) && (f.Kind <= RNR || f.Kind.Action()):
		return onCM
	case f.Kind <= RNR:
		return onPacket
	case f.Kind == RegFail:
		return onReg
	case f.Kind == AllocFail:
		return onAlloc
	case f.Kind == PostFail:
		return onPost
	case f.Kind <= Slow:
		return onFS
	case f.Packet != "":
		return onPacket
	case f.Op == "":
		return onTime
	case slices.Contains(opsOf[onPost], f.Op):
		return onPost
	}
	return onFS
}

// maxBy bounds all times.
const maxBy = time.Hour

// Validate says what is wrong with a fault.
func (f *Fault) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("fault %q: %s", f.String(), fmt.Sprintf(format, args...))
	}
	if f.Kind >= numKinds {
		return bad("no such kind")
	}
	pt := f.point()
	switch {
	case f.Packet != "" && pt != onPacket && pt != onCM:
		return bad("kind= is for packets")
	case f.Packet != "" && !slices.Contains(PacketNames(), f.Packet):
		return bad("no packet kind %s, want one of %s", f.Packet, strings.Join(PacketNames(), " "))
	case f.Packet != "" && f.Kind == RNR && f.Packet != "SEND" && f.Packet != "SEND_INV":
		return bad("only a SEND finds no receive")
	case f.Op != "" && !slices.Contains(opsOf[pt], f.Op):
		return bad("no operation %s, want one of %s", f.Op, strings.Join(Ops(f.Kind), " "))
	case f.Dir > ToClient || f.Side > Server:
		return bad("no such direction or side")
	case f.Dir != AnyDir && pt != onPacket && pt != onCM:
		return bad("dir= is for packets")
	case f.Side != AnySide && !f.Kind.Action() && pt != onReg && pt != onAlloc && pt != onPost:
		return bad("side= is for devices and actions")
	case f.Nth < 0 || f.Every < 0 || f.Max < 0:
		return bad("a count is negative")
	case !(f.P >= 0 && f.P <= 1):
		return bad("p must be 0 to 1")
	case f.From < 0 || f.To < 0 || f.By < 0 || f.From > maxBy || f.To > maxBy || f.By > maxBy:
		return bad("a time is not 0 to %v", maxBy)
	case f.To != 0 && f.To <= f.From:
		return bad("the window ends before it begins")
	case pt == onTime && (f.Nth != 0 || f.Every != 0 || f.P != 0 || f.To != 0 || f.Max != 0):
		return bad("an action at a time takes no other predicates")
	case f.By != 0 && f.Kind != Delay && f.Kind != Reorder && f.Kind != Slow && f.Kind != Crash && f.Kind != Remove:
		return bad("by= is for delay, reorder, slow, remove and crash")
	}
	return nil
}

// by is By or its default.
func (f *Fault) by() time.Duration {
	switch {
	case f.By > 0:
		return f.By
	case f.Kind == Delay:
		return 100 * time.Microsecond
	case f.Kind == Reorder:
		return 10 * time.Microsecond
	}
	return time.Millisecond
}

// Name is the fault without its counts and times: kind and what it is on, such as "drop/WRITE/c->s".
func (f *Fault) Name() string {
	s := f.Kind.String()
	for _, x := range []string{f.Packet, f.Op} {
		if x != "" {
			s += "/" + x
		}
	}
	if f.Dir != AnyDir {
		s += "/" + dirNames[f.Dir]
	}
	if f.Side != AnySide {
		s += "/" + sideNames[f.Side]
	}
	return s
}
