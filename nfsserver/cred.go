package nfsserver

import (
	"slices"

	"example.org/nfsrdma/internal/rpc"
)

// cred is who makes a call, before squashing.
type cred struct {
	uid, gid uint32
	groups   []uint32 // aliases the thread's AUTH_SYS
}

// authenticate fills t.cred from the call. AUTH_NONE is nobody; of the others only AUTH_SYS is taken.
func (t *thread) authenticate() rpc.AuthStat {
	c := &t.call
	switch c.Cred.Flavor {
	case rpc.AUTH_NONE:
		if len(c.Cred.Body) > 0 {
			return rpc.AUTH_BADCRED
		}
		t.cred = cred{uid: nobody, gid: nobody}
	case rpc.AUTH_SYS:
		n, err := rpc.ConsumeAuthSys(c.Cred.Body, &t.sys)
		if err != nil || n != len(c.Cred.Body) {
			return rpc.AUTH_BADCRED
		}
		t.cred = cred{uid: t.sys.UID, gid: t.sys.GID, groups: t.sys.Groups()}
	default:
		return rpc.AUTH_REJECTEDCRED
	}
	if c.Verf.Flavor != rpc.AUTH_NONE || len(c.Verf.Body) > 0 {
		return rpc.AUTH_BADVERF
	}
	return rpc.AUTH_OK
}

// squash makes the anonymous user of those that the export does not trust.
func (c *cred) squash(e *export) {
	if e.AllSquash {
		*c = cred{uid: e.AnonUID, gid: e.AnonGID}
		return
	}
	if !e.RootSquash {
		return
	}
	if c.uid == 0 {
		c.uid = e.AnonUID
	}
	if c.gid == 0 {
		c.gid = e.AnonGID
	}
	for i, g := range c.groups {
		if g == 0 {
			c.groups[i] = e.AnonGID
		}
	}
}

func (c *cred) inGroup(gid uint32) bool { return c.gid == gid || slices.Contains(c.groups, gid) }
