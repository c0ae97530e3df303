// Package sched is the one place where the fabric waits.
//
// A Sched runs tasks in one of two ways. Virtual: tasks are coroutines of one
// event heap, ordered by time and sequence; one runs at a time and time, in
// picoseconds, jumps to the next event, so that one seed gives one trace. Live:
// tasks are goroutines and time is the wall clock.
//
// Code above it is ordinary direct-style Go. It may wait in a Waiter, Queue,
// Sem, Mutex or Group and in Sleep, and nowhere else: a channel or a
// sync.Cond would stop virtual time. sync.Mutex is fine around sections that
// do not wait.
//
// In virtual time a wait outside any task, in the test's own goroutine, drives the heap until
// that wait is over. Only one goroutine may do so at a time. When nothing is left to
// happen, the wait ends with a *DeadlockError that lists every waiting task.
//
// Nothing ends a test in silence: time that passes its limit (SetLimit), an instant that does not end
// (SetInstantLimit) and, by the wall clock, a task that does not come back (SetTaskLimit) end waits with an error that names tasks.
//
// Callbacks of timers and events run between tasks and must not wait.
package sched
