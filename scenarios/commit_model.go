package scenarios

import (
	"time"

	"example.org/nfsrdma/fabric"
	"example.org/nfsrdma/nfsserver/model"
)

// The model of the commit scenario. A record is so many WRITEs at once, each under the inode lock of its file for
// commitWrite, then a COMMIT: the data is written back, then the log is forced.
const (
	commitProcs   = 12
	commitFile    = 1 << 30 // bytes of each process
	commitRecord  = 256 << 10
	commitWSize   = 8192
	commitNfsd    = 64
	commitWrite   = 25 * time.Microsecond
	commitData    = 1500 * time.Microsecond
	commitSpread  = 0.15
	commitOverlap = 0.025
	commitStagger = 6 * time.Millisecond
	commitInline  = 16384
	commitCPU     = 5.854 / (commitProcs * commitFile / commitRecord * (commitRecord/commitWSize + 1)) // s a call
	commitRecords = 160                                                                                // of each process in a run of the report's own
	commitShort   = 40                                                                                 // in others
)

var commitConstants = []Constant{
	{"processes", commitProcs, "", Reported},
	{"file of each", commitFile, "B", Reported},
	{"record", commitRecord, "B", Reported},
	{"wsize", commitWSize, "B", Reported},
	{"WRITE under the inode lock", 25, "us", Assumed},
	{"writing a record back", 1.5, "ms", Assumed},
	{"log force, initial write", 4.84, "ms", Fitted("children, initial write, before")},
	{"log force, rewrite", 3.40, "ms", Fitted("children, rewrite, before")},
	{"spread of a log force, uniform", commitSpread, "", Assumed},
	{"p, COMMITs that overlap the file's next record", commitOverlap, "", Assumed},
	{"nfsd threads", commitNfsd, "", Assumed},
	{"start of the processes within", 6, "ms", Assumed},
	{"inline threshold: data in the call, as on TCP", commitInline, "B", Assumed},
	{"client CPU of a call", commitCPU * 1e6, "us", Fitted("CPU time, initial write, before")},
}

// commitFigures are what iozone printed, in kB/s (1024 bytes) unless said otherwise.
type commitFigures struct {
	children, parent, min, max, avg float64
	minXfer                         float64 // kB
	wall, cpu                       float64 // s
}

// commitPhase is a column pair of the report.
type commitPhase struct {
	name          string
	log           time.Duration
	before, after commitFigures
	gain          float64 // %
}

var (
	commitInitial = &commitPhase{"initial", 4840 * time.Microsecond,
		commitFigures{416004.59, 415691.65, 34630.36, 34703.62, 34667.05, 1046528, 30.239, 5.854},
		commitFigures{434971.09, 434649.13, 36209.41, 36287.55, 36247.59, 1046528, 28.920, 5.705}, 4.56}
	commitRewrite = &commitPhase{"rewrite", 3400 * time.Microsecond,
		commitFigures{516605.59, 516530.05, 43007.56, 43074.50, 43050.47, 1047040, 24.347, 5.882},
		commitFigures{544700.37, 544623.91, 45320.82, 45456.07, 45391.70, 1045504, 23.071, 5.708}, 5.44}
	commitPhases = []*commitPhase{commitInitial, commitRewrite}
)

// commitPolicy is a state of the kernel.
type commitPolicy struct {
	name   string
	policy model.CommitPolicy
}

var (
	commitBefore = commitPolicy{"before", fabric.CommitLockAll}
	commitAfter  = commitPolicy{"after", fabric.CommitLockSync}
	commitNoLock = commitPolicy{"nolock", fabric.CommitNoLock}
)
