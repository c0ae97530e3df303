package verbs

// Access is a set of rights (IBV_ACCESS_*). Local read is always there.
type Access uint32

// Rights. RemoteWrite and RemoteAtomic need LocalWrite.
const (
	LocalWrite Access = 1 << iota
	RemoteWrite
	RemoteRead
	RemoteAtomic
	MWBind    // a window may be bound to the region
	ZeroBased // type 2 window or fast registration: addresses count from 0
)

// PageSize is the size of the pages of DMA mappings and page lists.
const PageSize = 4096

// SGE is a piece of local memory (struct ibv_sge).
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// PD is a protection domain: keys work only with queue pairs of their domain.
type PD interface {
	Device() Device
	// RegMR registers buf, which must stay alive until Close (ibv_reg_mr).
	RegMR(buf []byte, access Access) (MR, error)
	// AllocMR registers n zeroed bytes of the device's choosing: aligned to a
	// page, outside the Go heap where the device needs that.
	AllocMR(n int, access Access) (MR, error)
	// AllocFastRegMR makes a region for REG_MR work requests of up to n pages
	// (ib_alloc_mr IB_MR_TYPE_MEM_REG).
	AllocFastRegMR(n int) (FastRegMR, error)
	// AllocMW makes a memory window (ibv_alloc_mw).
	AllocMW(MWType) (MW, error)
	// GlobalKey is an rkey with the given remote rights that covers every DMA address
	// (ib_get_dma_mr): the all-physical mode.
	GlobalKey(Access) (rkey uint32, err error)
	// LocalDMAKey is an lkey that covers every DMA address (local_dma_lkey).
	LocalDMAKey() (lkey uint32, err error)
	// MapDMA gives the pages of buf DMA addresses (dma_map_sg) until UnmapDMA. Pages are counted from the
	// start of buf, wherever it lies, and the addresses of neighbouring pages are not neighbours.
	MapDMA(m *DMAMap, buf []byte) error
	// UnmapDMA ends the mapping and empties m; its storage is kept.
	UnmapDMA(m *DMAMap)
	CreateSRQ(SRQInit) (SRQ, error)
	// CreateQP makes a queue pair that no connection manager drives; it goes
	// through its states by Modify. Most users want ID.CreateQP.
	CreateQP(QPInit) (QP, error)
	Close() error
}

// DMASeg is a run of DMA addresses within one page.
type DMASeg struct {
	Addr uint64
	Len  uint32
}

// DMAMap holds the DMA addresses of a buffer, one segment a page: the first
// may begin, the last may end within a page. The zero value is an empty map.
type DMAMap struct {
	Segs []DMASeg
}

// MR is a memory region.
type MR interface {
	// Addr is the address of the first byte, for SGEs and remote peers.
	Addr() uint64
	Len() int
	// Bytes is the memory.
	Bytes() []byte
	LKey() uint32
	RKey() uint32
	// Close deregisters. Work that uses the region later fails. ErrBusy while
	// a window is bound to it.
	Close() error
}

// FastRegMR is a region that REG_MR work requests register and LOCAL_INV or
// the peer's SEND_WITH_INV invalidates. One registration at a time; MapPages
// and NextKey only while it is invalid.
type FastRegMR interface {
	// MapPages sets the page list of the next REG_MR and returns how many segments fit: all but the first
	// must begin, all but the last must end at a page boundary (ib_map_mr_sg).
	MapPages(segs []DMASeg) int
	// NextKey changes the key's tag byte and returns the key (ib_update_fast_reg_key),
	// for SendWR.Key and as the rkey of what is posted behind the REG_MR.
	NextKey() uint32
	// Addr and Len are those of the mapped page list.
	Addr() uint64
	Len() int
	// RKey and LKey are those of the latest REG_MR once it has completed. From
	// NextKey until then a device may give the old or the new tag byte: an lkey
	// for work behind the REG_MR is LKey with the tag byte of NextKey's key.
	RKey() uint32
	LKey() uint32
	// Valid says whether the key is registered now. What hardware cannot tell,
	// a device answers from the completions it has seen.
	Valid() bool
	Close() error
}

// MWType is the type of a memory window.
type MWType uint8

// Type 1 windows are bound by a verb, type 2B by a work request, and 2B
// belongs to the queue pair that bound it.
const (
	MWType1 MWType = iota + 1
	MWType2B
)

// MW is a memory window.
type MW interface {
	Type() MWType
	// RKey is the key of the latest bind: of type 1 from BindMW on, of type 2 once it is done.
	RKey() uint32
	// NextKey changes the tag byte for the next type 2 bind and returns the key (ibv_inc_rkey).
	NextKey() uint32
	Close() error
}

// Bind says what a window covers (struct ibv_mw_bind_info). Length 0 unbinds a
// type 1 window.
type Bind struct {
	MR     MR
	Addr   uint64
	Length uint64
	Access Access // RemoteRead, RemoteWrite, ZeroBased
}
