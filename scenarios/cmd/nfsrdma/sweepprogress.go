package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"

	"example.org/nfsrdma/fabric"
)

// progress shows how far a sweep is.
type progress interface {
	step(p fabric.SweepProgress)
	end()
}

// newProgress is a bar on a terminal, lines elsewhere.
func newProgress(w io.Writer, total int) progress {
	if f, ok := w.(*os.File); ok {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			return newBar(w, total)
		}
	}
	return &lines{w: w, last: time.Now()}
}

// lines writes one every two seconds, and the last.
type lines struct {
	w    io.Writer
	last time.Time
}

func (l *lines) step(p fabric.SweepProgress) {
	now := time.Now()
	if now.Sub(l.last) < 2*time.Second && p.Done < p.Total {
		return
	}
	l.last = now
	failed := ""
	if p.Failed > 0 {
		failed = fmt.Sprintf(", %d failed", p.Failed)
	}
	fmt.Fprintf(l.w, "sweep: %d of %d cells%s\n", p.Done, p.Total, failed)
}

func (l *lines) end() {}

type bar struct {
	all    *mpb.Progress
	bar    *mpb.Bar
	status chan string
}

func newBar(w io.Writer, total int) *bar {
	b := &bar{all: mpb.New(mpb.WithOutput(w), mpb.WithWidth(48)), status: make(chan string, 1)}
	text := ""
	b.bar = b.all.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name("sweep "), decor.CountersNoUnit("%d of %d cells ")),
		mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO), decor.Any(func(decor.Statistics) string {
			select {
			case text = <-b.status:
			default:
			}
			return text
		})))
	return b
}

func (b *bar) step(p fabric.SweepProgress) {
	if p.Failed > 0 {
		select {
		case <-b.status: // an older one
		default:
		}
		b.status <- fmt.Sprintf(" %d failed", p.Failed)
	}
	b.bar.SetCurrent(int64(p.Done))
}

func (b *bar) end() {
	b.bar.Abort(false) // without effect on one that is full
	b.all.Wait()
}
