package xprtrdma

import "example.org/nfsrdma/internal/xprt/clnt"

// checkCalls ends the connection if a call had no reply for Config.Timeout, as Linux does.
func (x *Xprt) checkCalls(now uint32) (busy bool) {
	e := x.link.Load()
	for i := range x.reqs {
		q := &x.reqs[i]
		switch stateOf(q.word.Load()) {
		case idle:
			continue
		case waiting, abandoned:
			if clnt.Late(now, q.tick.Load()) && e != nil {
				q.timedOut.Store(true)
				x.stats.timeouts.Add(1)
				e.Disconnect(ErrTimedOut)
			}
		}
		busy = true
	}
	return busy && !x.link.Closed()
}
