package rdmacore

import (
	"sync"

	"example.org/nfsrdma/verbs"
)

// track holds what is outstanding on a queue pair of a device that completes work out of order, or forgets some
// when the connection ends, as siw does: a SEND may complete before the READ that was posted first, and READs that wait
// for their response are not flushed. Work requests get numbers instead of their IDs, READs are always
// signaled, and completions are given on in order, each once.
type track struct {
	mu    sync.Mutex
	sends []tracked // from head on, by number
	first uint64    // number of sends[head]
	head  int
	recvs []uint64 // IDs, from rhead on, by number
	rfrst uint64
	rhead int
	// A send, a receive has failed: what comes behind it has too, whatever the device says of it.
	sendFailed, recvFailed bool
}

type tracked struct {
	id       uint64
	op       verbs.Opcode
	signaled bool
	done     bool
	wc       verbs.WC // when done
}

// recvBit marks the number of a receive, sharedBit that of a shared receive queue.
const (
	recvBit   = 1 << 63
	sharedBit = 1 << 62
)

func (k *track) postSend(id uint64, op verbs.Opcode, signaled bool) (num uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sends = append(k.sends, tracked{id: id, op: op, signaled: signaled})
	return k.first + uint64(len(k.sends)-k.head) - 1
}

// unpostSends takes back the last n, which the device did not take.
func (k *track) unpostSends(n int) {
	k.mu.Lock()
	k.sends = k.sends[:max(len(k.sends)-n, k.head)]
	k.mu.Unlock()
}

func (k *track) postRecv(id uint64) (num uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recvs = append(k.recvs, id)
	return recvBit | (k.rfrst + uint64(len(k.recvs)-k.rhead) - 1)
}

func (k *track) unpostRecvs(n int) {
	k.mu.Lock()
	k.recvs = k.recvs[:max(len(k.recvs)-n, k.rhead)]
	k.mu.Unlock()
}

// complete takes a completion of the device and appends those that are due.
func (k *track) complete(wc verbs.WC, out []verbs.WC) []verbs.WC {
	k.mu.Lock()
	defer k.mu.Unlock()
	if wc.ID&recvBit != 0 {
		num := wc.ID &^ recvBit
		if num < k.rfrst || num >= k.rfrst+uint64(len(k.recvs)-k.rhead) {
			return out // flushed already
		}
		for k.rfrst <= num { // receives complete in order
			wc.ID = k.recvs[k.rhead]
			k.popRecv()
		}
		return append(out, inOrder(wc, &k.recvFailed))
	}
	if wc.ID < k.first || wc.ID >= k.first+uint64(len(k.sends)-k.head) {
		return out
	}
	last := k.head + int(wc.ID-k.first)
	for i := k.head; i < last && wc.Status == verbs.Success; i++ {
		// What was sent before is done, except READs that wait for a response, unless this is one.
		if e := &k.sends[i]; e.op != verbs.OpRDMARead || k.sends[last].op == verbs.OpRDMARead {
			e.finish(verbs.WC{Op: e.op, QPN: wc.QPN})
		}
	}
	k.sends[last].finish(wc)
	for k.head < len(k.sends) && k.sends[k.head].done {
		out = k.popSend(out)
	}
	return out
}

// inOrder is wc, flushed if an earlier completion of the queue was a failure.
func inOrder(wc verbs.WC, failed *bool) verbs.WC {
	if wc.Status != verbs.Success {
		*failed = true
	} else if *failed {
		wc = verbs.WC{ID: wc.ID, Status: verbs.WRFlushErr, QPN: wc.QPN}
	}
	return wc
}

// finish notes the first completion.
func (e *tracked) finish(wc verbs.WC) {
	if !e.done {
		wc.ID = e.id
		e.done, e.wc = true, wc
	}
}

func (k *track) popSend(out []verbs.WC) []verbs.WC {
	e := &k.sends[k.head]
	e.wc = inOrder(e.wc, &k.sendFailed)
	if e.signaled || e.wc.Status != verbs.Success {
		out = append(out, e.wc)
	}
	k.first++
	if k.head++; k.head == len(k.sends) {
		k.sends, k.head = k.sends[:0], 0
	} else if k.head > 1024 && 2*k.head > len(k.sends) {
		k.sends, k.head = k.sends[:copy(k.sends, k.sends[k.head:])], 0
	}
	return out
}

func (k *track) popRecv() {
	k.rfrst++
	if k.rhead++; k.rhead == len(k.recvs) {
		k.recvs, k.rhead = k.recvs[:0], 0
	} else if k.rhead > 1024 && 2*k.rhead > len(k.recvs) {
		k.recvs, k.rhead = k.recvs[:copy(k.recvs, k.recvs[k.rhead:])], 0
	}
}

// flushSends appends completions of all sends that are left, as the device will not.
func (k *track) flushSends(qpn uint32, out []verbs.WC) []verbs.WC {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.head < len(k.sends) {
		e := &k.sends[k.head]
		e.finish(verbs.WC{Status: verbs.WRFlushErr, QPN: qpn})
		out = k.popSend(out)
	}
	return out
}

// flushRecvs is the same for receives.
func (k *track) flushRecvs(qpn uint32, out []verbs.WC) []verbs.WC {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recvFailed = k.recvFailed || k.rhead < len(k.recvs)
	for k.rhead < len(k.recvs) {
		out = append(out, verbs.WC{ID: k.recvs[k.rhead], Status: verbs.WRFlushErr, QPN: qpn})
		k.popRecv()
	}
	return out
}
