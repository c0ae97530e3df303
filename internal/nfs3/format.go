package nfs3

import (
	"fmt"

	"example.org/nfsrdma/internal/xdr"
)

// message is arguments or a result of any procedure.
type message interface {
	append(b []byte) []byte
	consume(r *xdr.Reader)
	String() string
}

// reducible is a message whose last item is DDP-eligible.
type reducible interface {
	appendHead(b []byte, dataLen uint32) []byte
	consumeHead(r *xdr.Reader) (dataLen uint32)
}

// newArgs and newRes make the messages of p, which is below NumProcs.
func newArgs(p Proc) message {
	return [NumProcs]message{
		&NullArgs{}, &GetattrArgs{}, &SetattrArgs{}, &LookupArgs{}, &AccessArgs{}, &ReadlinkArgs{}, &ReadArgs{},
		&WriteArgs{}, &CreateArgs{}, &MkdirArgs{}, &SymlinkArgs{}, &MknodArgs{}, &RemoveArgs{}, &RmdirArgs{},
		&RenameArgs{}, &LinkArgs{}, &ReaddirArgs{}, &ReaddirplusArgs{}, &FsstatArgs{}, &FsinfoArgs{}, &PathconfArgs{},
		&CommitArgs{},
	}[p]
}

func newRes(p Proc) message {
	return [NumProcs]message{
		&NullRes{}, &GetattrRes{}, &SetattrRes{}, &LookupRes{}, &AccessRes{}, &ReadlinkRes{}, &ReadRes{},
		&WriteRes{}, &CreateRes{}, &MkdirRes{}, &SymlinkRes{}, &MknodRes{}, &RemoveRes{}, &RmdirRes{},
		&RenameRes{}, &LinkRes{}, &ReaddirRes{}, &ReaddirplusRes{}, &FsstatRes{}, &FsinfoRes{}, &PathconfRes{},
		&CommitRes{},
	}[p]
}

// FormatArgs prints the encoded arguments of p in one line, for logs and traces. If reduced, the
// DDP-eligible item is not in b but in a chunk; a procedure without such an item ignores it.
func FormatArgs(p Proc, b []byte, reduced bool) string { return format(p, newArgs, b, reduced) }

// FormatRes prints the encoded result of p in one line; see FormatArgs.
func FormatRes(p Proc, b []byte, reduced bool) string { return format(p, newRes, b, reduced) }

func format(p Proc, newMessage func(Proc) message, b []byte, reduced bool) string {
	if p >= NumProcs {
		return fmt.Sprintf("%v %d bytes", p, len(b))
	}
	m := newMessage(p)
	r := xdr.NewReader(b)
	suffix := ""
	if h, ok := m.(reducible); ok && reduced {
		suffix = fmt.Sprintf(" reduced=%d", h.consumeHead(&r))
	} else {
		m.consume(&r)
	}
	if n, err := r.Done(); err != nil {
		return fmt.Sprintf("%v bad: %v", p, err)
	} else if n < len(b) {
		suffix += fmt.Sprintf(" trailing=%d", len(b)-n)
	}
	return m.String() + suffix
}
