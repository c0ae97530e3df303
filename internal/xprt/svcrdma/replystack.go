package svcrdma

import (
	"context"
	"sync"

	"example.org/nfsrdma/internal/sched"
)

// replyStack holds the idle replies, the last used on top.
type replyStack struct {
	mu      sync.Mutex
	list    []*Reply
	waiting int
	handed  *sched.Queue[*Reply] // to those who wait
}

func (s *replyStack) put(p *Reply) {
	s.mu.Lock()
	if s.waiting > 0 {
		s.waiting--
		s.mu.Unlock()
		s.handed.Push(p)
		return
	}
	s.list = append(s.list, p)
	s.mu.Unlock()
}

func (s *replyStack) get(n *counters) (*Reply, error) {
	s.mu.Lock()
	if k := len(s.list); k > 0 {
		p := s.list[k-1]
		s.list = s.list[:k-1]
		s.mu.Unlock()
		return p, nil
	}
	s.waiting++
	s.mu.Unlock()
	n.replyWait.Add(1)
	return s.handed.Pop(context.Background())
}
