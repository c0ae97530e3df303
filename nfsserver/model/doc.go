// Package model decorates a file system with what decides its speed: locks that are held while data is
// copied, a page cache that is written back, a journal, disks with spindles and a scheduler, and how COMMIT
// excludes WRITE.
//
// A decorator delays calls and changes no result. It lends pages if the file system below does, so data
// still lands where it belongs and can be checked. Decorators stack; from the file system outwards the usual order is
//
//	InodeLock, Journal, PageCache (on a Disk or a Fixed device), CommitLock, Async
//
// All waits go through the scheduler, so they work in virtual time, where one seed gives one trace, and live. In
// virtual time each lock, disk and journal has a meter (sched.Sched.Usage), which tells how long it was in
// use and how long calls waited for it.
//
// Limits: names and attributes take no time; READ knows of the cache what fits Size, in blocks of 64 KiB.
package model
