package verbs

// FMRDomain is a PD of a device with CapFMR: fast memory regions, which Linux had up to 5.7 for its
// own use (ib_alloc_fmr). No device of libibverbs is one.
type FMRDomain interface {
	PD
	// AllocFMR makes a region of up to n pages with these rights, which nothing is mapped to.
	AllocFMR(n int, access Access) (FMR, error)
	// UnmapFMR ends the mappings of regions (ib_unmap_fmr). When it returns, none of their keys works.
	UnmapFMR([]FMR) error
}

// FMR is a fast memory region. It is mapped by a verb, not by a work request: its key works at once, for
// all queue pairs of the domain, and cannot be invalidated by any of them.
type FMR interface {
	// Map maps what is at the front of segs and returns how many that is, by the rule of
	// FastRegMR.MapPages (ib_map_phys_fmr). The key is another one then. ErrState while something is mapped.
	Map(segs []DMASeg) (int, error)
	// Addr, Len and RKey are those of the latest mapping.
	Addr() uint64
	Len() int
	RKey() uint32
	// Close frees it, and unmaps it before.
	Close() error
}
