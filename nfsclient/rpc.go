package nfsclient

import (
	"context"
	"encoding/binary"
	"fmt"

	"example.org/nfsrdma/internal/mount3"
	"example.org/nfsrdma/internal/nfs3"
	"example.org/nfsrdma/internal/rpc"
	"example.org/nfsrdma/internal/xprt/clnt"
)

// callHeads are the RPC call headers of the two programs, and of NULL, which needs no credential; XID and
// procedure are patched in.
type callHeads struct{ nfs, null, mount []byte }

func newCallHeads(c *Cred) callHeads {
	var cred rpc.Auth
	if !c.None {
		sys := rpc.AuthSys{Machine: []byte(c.Machine), UID: c.UID, GID: c.GID, NumGIDs: len(c.GIDs)}
		copy(sys.GIDs[:], c.GIDs)
		cred = rpc.Auth{Flavor: rpc.AUTH_SYS, Body: rpc.AppendAuthSys(nil, &sys)}
	}
	return callHeads{
		null:  rpc.AppendCall(nil, &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version}),
		nfs:   rpc.AppendCall(nil, &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version, Cred: cred}),
		mount: rpc.AppendCall(nil, &rpc.Call{Prog: mount3.Program, Vers: mount3.Version, Cred: cred}),
	}
}

// get takes a slot and writes the call header into it.
func (m *Mount) get(ctx context.Context, proc nfs3.Proc) (*clnt.Call, error) {
	return m.getWith(ctx, m.heads.nfs, proc)
}

func (m *Mount) getWith(ctx context.Context, head []byte, proc nfs3.Proc) (*clnt.Call, error) {
	begun := m.s.Now()
	q, err := getCall(ctx, m.x, head, uint32(proc))
	if err == nil {
		m.ops.Begin(q, int(proc), begun)
	}
	return q, err
}

func getCall(ctx context.Context, x clnt.Xprt, head []byte, proc uint32) (*clnt.Call, error) {
	q, err := x.Get(ctx)
	if err != nil {
		return nil, err
	}
	b := append(q.Msg, head...)
	binary.BigEndian.PutUint32(b[0:], q.XID())
	binary.BigEndian.PutUint32(b[20:], proc)
	q.Msg = b
	return q, nil
}

// do makes the call, and gives the results behind the RPC reply header.
func (m *Mount) do(ctx context.Context, q *clnt.Call) ([]byte, error) {
	body, err := results(ctx, q)
	// All results but NULL's begin with a status.
	q.Count(m.s.Now(), err != nil || len(body) >= 4 && binary.BigEndian.Uint32(body) != 0)
	return body, err
}

func results(ctx context.Context, q *clnt.Call) ([]byte, error) {
	if err := q.Do(ctx); err != nil {
		return nil, err
	}
	var h rpc.Reply
	n, err := rpc.ConsumeReply(q.Reply, &h)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadReply, err)
	}
	if !h.OK() {
		return nil, &RPCError{Denied: h.Stat == rpc.MSG_DENIED, Accept: h.Accept, Reject: h.Reject, Auth: h.Auth, Low: h.Low, High: h.High}
	}
	return q.Reply[n:], nil
}

// maxReply is the longest reply to proc; see nfs3.MaxReplyLen.
func maxReply(proc nfs3.Proc, count uint32) int {
	return rpc.MaxReplyLen + nfs3.MaxReplyLen(proc, count)
}

// simple makes a call that is on no hot path.
func simple[A, R any](ctx context.Context, m *Mount, proc nfs3.Proc, args *A, appendArgs func([]byte, *A) []byte,
	res *R, consumeRes func([]byte, *R) (int, error)) error {
	for {
		err := once(ctx, m, proc, args, appendArgs, res, consumeRes)
		if !m.retry(ctx, &err) {
			return failed(proc.String(), err)
		}
	}
}

func once[A, R any](ctx context.Context, m *Mount, proc nfs3.Proc, args *A, appendArgs func([]byte, *A) []byte,
	res *R, consumeRes func([]byte, *R) (int, error)) error {
	q, err := m.get(ctx, proc)
	if err != nil {
		return err
	}
	defer m.x.Put(q)
	q.Msg = appendArgs(q.Msg, args)
	q.MaxReply = maxReply(proc, 0)
	body, err := m.try(ctx, q)
	if err != nil {
		return err
	}
	if _, err := consumeRes(body, res); err != nil {
		return fmt.Errorf("%w: %w", ErrBadReply, err)
	}
	return nil
}

func badResult(proc nfs3.Proc, err error) error {
	return fmt.Errorf("%v: %w: %w", proc, ErrBadReply, err)
}

// check gives a status that is not NFS3_OK as an error.
func check(proc nfs3.Proc, name string, s Status) error {
	if s == nfs3.NFS3_OK {
		return nil
	}
	return &Error{Op: proc.String(), Name: name, Status: s}
}

// formatCall prints an RPC call for traces. reduced: its DDP-eligible argument is in a chunk.
func formatCall(msg []byte, reduced bool) string {
	var c rpc.Call
	n, err := rpc.ConsumeCall(msg, &c)
	if err != nil {
		return err.Error()
	}
	if c.Prog == nfs3.Program {
		return nfs3.FormatArgs(nfs3.Proc(c.Proc), msg[n:], reduced)
	}
	return fmt.Sprintf("%v %d bytes", mount3.Proc(c.Proc), len(msg)-n)
}

// formatReply prints an RPC reply; call is what it answers.
func formatReply(call, msg []byte, reduced bool) string {
	var c rpc.Call
	var h rpc.Reply
	if _, err := rpc.ConsumeCall(call, &c); err != nil {
		return err.Error()
	}
	n, err := rpc.ConsumeReply(msg, &h)
	switch {
	case err != nil:
		return err.Error()
	case !h.OK():
		return h.String()
	case c.Prog == nfs3.Program:
		return nfs3.FormatRes(nfs3.Proc(c.Proc), msg[n:], reduced)
	}
	return fmt.Sprintf("%v %d bytes", mount3.Proc(c.Proc), len(msg)-n)
}
