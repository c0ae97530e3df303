package main

import (
	"bytes"
	"strconv"
	"strings"
)

// mark begins init's own lines in the output; the token after it, new at each boot, keeps programs from making one.
const mark = '\x1e'

// maxLine is what is held back of a line that does not end, in bytes.
const maxLine = 1 << 20

// demux takes the guest's output apart: init's lines say which step begins and ends, the rest is the step's.
type demux struct {
	token string
	h     stepHandler
	timer func(name string, running bool)
	over  bool // init said that it is done

	buf []byte // an unfinished line
}

func (d *demux) Write(b []byte) (int, error) {
	d.buf = append(d.buf, b...)
	for {
		i := bytes.IndexByte(d.buf, '\n')
		if i < 0 {
			break
		}
		d.line(d.buf[:i+1])
		d.buf = d.buf[i+1:]
	}
	if len(d.buf) > maxLine {
		d.flush()
	}
	return len(b), nil
}

// flush gives out what has no end of line yet.
func (d *demux) flush() {
	if len(d.buf) > 0 {
		d.h.output(d.buf)
		d.buf = nil
	}
}

func (d *demux) line(line []byte) {
	i := bytes.Index(line, []byte(string(mark)+d.token+" "))
	if i < 0 {
		d.h.output(line)
		return
	}
	if i > 0 {
		d.h.output(line[:i])
	}
	switch f := strings.Fields(string(line[i:]))[1:]; {
	case len(f) == 2 && f[0] == "begin":
		d.timer(f[1], true)
		d.h.begin(f[1])
	case len(f) == 3 && f[0] == "end":
		status, err := strconv.Atoi(f[2])
		if err != nil {
			status = 255
		}
		d.timer(f[1], false)
		d.h.end(f[1], status)
	case len(f) == 1 && f[0] == "over":
		d.over = true
	}
}
