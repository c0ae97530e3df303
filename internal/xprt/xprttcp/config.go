package xprttcp

import (
	"errors"
	"fmt"

	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/internal/xprt/stream"
)

// Config is a transport's. All fields are used as they are; package nfsclient knows the defaults.
type Config struct {
	Sched *sched.Sched
	Net   stream.Network // nil: the machine's sockets
	Addr  string         // "host:port"
	Resv  bool           // resvport: from a port below 1024

	Slots        int            // tcp_slot_table_entries
	Timeout      sched.Duration // timeo: no reply in this time ends the connection; 0: none
	Retrans      int            // soft: times that a call is sent again
	Soft         bool           // a call fails after Retrans; otherwise it never gives up
	ReconnectMin sched.Duration // wait before the second attempt to connect, doubled each time
	ReconnectMax sched.Duration

	Wake sched.Duration // modelled, in virtual time: from data's arrival to the run of the reader that waits for it

	// Trace, if not nil, gets each message sent (">") and received ("<"), and what happens to the
	// connection ("*"), in one line each. It must not wait.
	Trace func(line string)
	// FormatCall and FormatReply, if not nil, print the RPC message for Trace.
	FormatCall  func(msg []byte, reduced bool) string
	FormatReply func(call, msg []byte, reduced bool) string
}

// maxData bounds Data and Sink, bytes (NFS_MAX_FILE_IO_SIZE).
const maxData = 4 << 20

// maxRecord bounds a reply, bytes.
const maxRecord = maxData + 64<<10

// readBuffer is the size of the reader's, bytes. Longer pieces are read to where they belong.
const readBuffer = 32 << 10

func (c *Config) check() error {
	if c.Net == nil {
		c.Net = stream.Sockets{}
	}
	if c.Slots < 1 || c.Slots > 1<<14 {
		return fmt.Errorf("xprttcp: Slots %d: want 1 to %d", c.Slots, 1<<14)
	}
	if _, ok := c.Net.(stream.Sockets); ok && c.Sched.Virtual() {
		return errors.New("xprttcp: sockets have no virtual time")
	}
	return nil
}
