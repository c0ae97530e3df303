package svc

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

type conn struct{ calls int }

func TestConns(t *testing.T) {
	var l Conns[*conn, int]
	l.Init(2, func(c *conn, sum *int) { *sum += c.calls })
	open := func() *conn { return &conn{calls: 3} }
	a, ok := l.Admit(open)
	assert.True(t, ok)
	_, ok = l.Admit(open)
	assert.True(t, ok)
	c, ok := l.Admit(open)
	assert.False(t, ok, "two at most")
	assert.Nil(t, c)
	a.calls++
	l.Forget(a)
	l.Forget(a)
	a.calls = 100 // counts no more
	sum, n := l.Sum()
	assert.Equal(t, 7, sum)
	assert.Equal(t, ConnCounts{Accepted: 2, Rejected: 1, Ended: 1, Open: 1}, n)
	assert.Len(t, l.List(), 1)
	l.Refuse()
	_, ok = l.Admit(open)
	assert.False(t, ok)
}
