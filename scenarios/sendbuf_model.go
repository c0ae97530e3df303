package scenarios

import "time"

// The model of the sendbuf scenario: READs wait for disks, and their replies for the send buffer of one TCP connection.
const (
	sendbufFile   = 2_000_000 << 10 // bytes, iozone -s 2000000
	sendbufCount  = 1 << 20         // rsize
	sendbufM      = 1<<20 + 4096    // sv_max_mesg
	sendbufWire   = 114_000_000     // payload, bytes/s
	sendbufMTU    = 1448
	sendbufRTT    = 200 * time.Microsecond
	sendbufSlots  = 16
	sendbufCPU    = 600 * time.Microsecond // of the server for 1 MiB
	sendbufWindow = 4 << 20

	sendbufCalls = sendbufFile / sendbufCount // READs of a run of the report's own, as iozone's
	sendbufShort = 700                        // in what-ifs, in others:
	sendbufLeast = 350
)

var sendbufConstants = []Constant{
	{"file", sendbufFile, "B", Reported},
	{"rsize", sendbufCount, "B", KernelSource},
	{"M, sv_max_mesg", sendbufM, "B", KernelSource},
	{"send buffer of auto, 2 x 4 M", 8 * sendbufM, "B", KernelSource},
	{"send buffer of locked, 2(n + 3) M, n = 8", 22 * sendbufM, "B", KernelSource},
	{"send buffer of clamp, tcp_wmem[2]", 4 << 20, "B", KernelSource},
	{"spindles, deadline", 4, "", Fitted("2.6.29, 1 to 8 nfsd")},
	{"mean time of 1 MiB, exponential, deadline", 22.7, "ms", Fitted("2.6.29, 1 to 8 nfsd")},
	{"spindles, cfq", 5, "", Fitted("cfq, reverted")},
	{"mean time of 1 MiB, exponential, cfq", 42.5, "ms", Fitted("cfq, reverted")},
	{"payload rate of 1 GbE", 114, "MB/s", Fitted("1 Gb/s less headers and acknowledgements")},
	{"payload of a packet", sendbufMTU, "B", KernelSource},
	{"round trip", 200, "us", Assumed},
	{"READs in flight, tcp_slot_table_entries", sendbufSlots, "", Assumed},
	{"CPU of the server for 1 MiB", 0.6, "ms", Assumed},
	{"window of the client", sendbufWindow, "B", Assumed},
}

// sendbufDisks is the array under one elevator.
type sendbufDisks struct {
	name     string
	spindles int
	mib      time.Duration // mean time of 1 MiB
}

var (
	sendbufDeadline = &sendbufDisks{"deadline", 4, 22700 * time.Microsecond}
	sendbufCFQ      = &sendbufDisks{"cfq", 5, 42500 * time.Microsecond}
)

// What was reported, KB/s (1024 bytes), by number of nfsd.
var (
	sendbufNfsd = []int{1, 2, 4, 8}
	sendbufOld  = map[int]float64{1: 43207, 2: 67436, 4: 96289, 8: 107590} // 2.6.29
	sendbufRC1  = map[int]float64{1: 43732, 2: 68059, 4: 76659, 8: 83231}  // 2.6.30-rc1
	sendbufRC3  = map[int]float64{1: 46102, 2: 71151, 4: 83120, 8: 82330}  // with other changes to the block layer
)

// sendbufRuns are the single runs of 2.6.30-rc4 with 8 nfsd, and their mean.
type sendbufRuns struct {
	mean float64
	runs []float64
}

var (
	sendbufRC4       = sendbufRuns{65558, []float64{41675, 42559, 74820, 87518, 81221}}
	sendbufRC4Revert = sendbufRuns{107827, []float64{109730, 106077, 107175, 108524, 107632}}
	sendbufCFQNew    = sendbufRuns{51632, []float64{49791, 52436, 52308, 51488, 52141}}
	sendbufCFQRevert = sendbufRuns{82513, []float64{81650, 82762, 83147, 82935, 82073}}
)
