package chunkfuzz

import (
	"fmt"
	"strings"

	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/rpcrdma"
)

// The wire types, for users outside the module.
type (
	Header      = rpcrdma.Header      // transport header (RFC 8166 section 4.2)
	Segment     = rpcrdma.Segment     // handle, length, offset
	ReadSegment = rpcrdma.ReadSegment // with a position
)

// Kind is how an exchange ended.
type Kind uint8

// Kinds of verdicts.
const (
	Reply      Kind = iota // an RPC reply, inline or in the Reply chunk
	ErrVers                // RDMA_ERROR, ERR_VERS
	ErrChunk               // RDMA_ERROR, ERR_CHUNK
	Drop                   // no answer, and the connection serves on
	Disconnect             // the connection ended
	Violation              // what no peer may cause: see Verdict.Why
	NotSent                // see Session.Careful
	numKinds
)

var kindNames = [numKinds]string{"reply", "ERR_VERS", "ERR_CHUNK", "drop", "disconnect", "VIOLATION", "not sent"}

func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Kinds is a set of kinds.
type Kinds uint8

// Has says whether k is in the set.
func (s Kinds) Has(k Kind) bool { return s&(1<<k) != 0 }

func kinds(list ...Kind) (s Kinds) {
	for _, k := range list {
		s |= 1 << k
	}
	return s
}

func (s Kinds) String() string {
	var names []string
	for k := range numKinds {
		if s.Has(k) {
			names = append(names, k.String())
		}
	}
	return strings.Join(names, "|")
}

// RPCStat is what an RPC reply says: an accept_stat, or denied.
type RPCStat uint8

// Stats of a reply, by RFC 5531.
const (
	Success      = RPCStat(rpc.SUCCESS)
	ProgUnavail  = RPCStat(rpc.PROG_UNAVAIL)
	ProgMismatch = RPCStat(rpc.PROG_MISMATCH)
	ProcUnavail  = RPCStat(rpc.PROC_UNAVAIL)
	GarbageArgs  = RPCStat(rpc.GARBAGE_ARGS)
	SystemErr    = RPCStat(rpc.SYSTEM_ERR)
	RPCMismatch  = RPCStat(64)
	AuthError    = RPCStat(65)
)

func (s RPCStat) String() string {
	switch s {
	case RPCMismatch:
		return "RPC_MISMATCH"
	case AuthError:
		return "AUTH_ERROR"
	}
	return rpc.AcceptStat(s).String()
}

// Verdict is the end of an exchange.
type Verdict struct {
	Kind Kind
	RPC  RPCStat // of a Reply
	Long bool    // of a Reply: it came through the Reply chunk
	Why  string  // of a Disconnect or Violation
}

func (v Verdict) String() string {
	s := v.Kind.String()
	if v.Kind == Reply {
		s += " " + v.RPC.String()
		if v.Long {
			s += " in the Reply chunk"
		}
	}
	if v.Why != "" {
		s += ": " + v.Why
	}
	return s
}

func violation(format string, args ...any) Verdict {
	return Verdict{Kind: Violation, Why: fmt.Sprintf(format, args...)}
}
