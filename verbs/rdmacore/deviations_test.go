//go:build rdmacore && cgo

package rdmacore_test

import "example.org/nfsrdma/verbs"

// Where rxe and siw of Linux 6.1 do not follow the specifications, and soft-RoCE of this module does.

// rxeStatuses: rxe has its own status for a bad key or bounds on its own side (IB specification 11.6.2:
// local protection error), and for a receive that is too short (C9-160: NAK invalid request).
var rxeStatuses = map[verbs.Status]verbs.Status{
	verbs.LocProtErr:   verbs.LocQPOpErr,
	verbs.LocLenErr:    verbs.LocQPOpErr,
	verbs.RemInvReqErr: verbs.RemOpErr,
	verbs.MWBindErr:    verbs.LocQPOpErr, // of LOCAL_INV
}

var rxeDeviations = map[string]string{
	"rights/write-imm-without-remote-write": "the refused WRITE with immediate consumes a receive, and completes it with a requester's status",
	"window1/bounds":                        "access through a window is checked against the bounds of its region",
	"window2/bounds":                        "access through a window is checked against the bounds of its region",
	"window2/zero-based":                    "access through a window is checked against the bounds of its region",
	"window2/send-with-inv-by-wrong-qp":     "a window is invalidated over any queue pair",
	"srq/last-wqe-event":                    "the event does not come",
	"readdepth/ord-above-ird-by-modify":     "READs beyond the responder's depth are served",
}

// siwStatuses: the same for bad keys or bounds of a source.
var siwStatuses = map[verbs.Status]verbs.Status{
	verbs.LocProtErr: verbs.LocQPOpErr,
}

var siwDeviations = map[string]string{
	"cm/disconnect-with-work-outstanding": "work of one disconnect is flushed, or fails with a local QP operation error, in any mixture",
	"cm/listener-close-refuses-pending":   "siw of 6.1 corrupts its list of pending connections when their listener ends (siw_destroy_listen)",
	"rights/read-without-remote-read":     "the responder answers the READ",
	"rights/read-without-any":             "the responder answers the READ",
	"readdepth/ord-below-ird":             "either side takes the depth of the other, also above its own wish",
	"readdepth/ord-above-ird":             "either side takes the depth of the other, also above its own wish",
	"cm/negotiated-depths":                "either side takes the depth of the other, also above its own wish",
	"cq/solicited-only":                   "rdmacore arms for all completions, as siw misses events of flushed work",
}
