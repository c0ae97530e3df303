package fabric

import "example.org/nfsrdma/internal/link"

// Links by name; each is a copy to change at will. Fields: BitsPerSecond, Delay (one way), MTU and Overhead (bytes
// a packet), Queue (packets), Loss, Duplicate, Reorder (0 to 1), ReorderDelay.
var (
	IBSDR    = link.IBSDR    // InfiniBand SDR 4x: 970 MB/s of payload
	IWARP10G = link.IWARP10G // 10 Gb/s iWARP: 1170 MB/s of payload
	RoCE25G  = link.RoCE25G
	RoCE100G = link.RoCE100G
	GbE1     = link.GbE1
)

// NamedLink finds a link by its name.
func NamedLink(name string) (Link, bool) { return link.Named(name) }

// LinkNames lists them, slowest first.
func LinkNames() []string { return link.Names() }
