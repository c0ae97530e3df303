// Package faults makes things go wrong at chosen places: packets, calls of the verbs device, calls of the file
// system, and whole connections, devices and servers.
//
// A Fault is a kind and predicates, and has a text form:
//
//	drop kind=WRITE dir=c->s nth=3; eio op=COMMIT p=0.01; crash op=WRITE nth=40 by=5ms; disconnect at=2ms; drop kind=REP; remove side=server by=20ms
//
// An Injector decides for a list of them. It is a set of decorators, Tap for a softroce network, Device and FS, that
// change nothing where no fault fires, and it counts: a fault that must fire and never did is an error of Unfired.
// Faults of a list compose: a packet that two of them hit is, say, delayed and doubled.
//
// What fires is decided by counts, the fabric's time, and streams of random numbers of the scheduler, one a fault: in
// virtual time one seed gives one trace.
//
// # Limits
//
// Packets and messages of connection management can be reached on softroce only. A queue overflows, and a device goes
// away and comes back, by the device's own methods Overflow, Remove and Plug; where it has none, the fault does not fire.
// A device that is back still knows memory that it knew before, which hardware does not. Connections of TCP can be
// ended, and nothing else.
package faults
