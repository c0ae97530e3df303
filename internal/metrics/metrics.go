package metrics

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ContentType is that of WriteText, for HTTP.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Type is what a family's values are.
type Type string

// Counters only grow, and their names end in _total.
const (
	Counter Type = "counter"
	Gauge   Type = "gauge"
)

// Family are the samples of one name. Names consist of letters, digits and underscores, and have base units: bytes, seconds.
type Family struct {
	Name, Help string
	Type       Type
	Samples    []Sample
}

// Sample is a value; Labels tell it from others of its family.
type Sample struct {
	Labels []Label
	Value  float64
}

// Label is a name of letters, digits and underscores, and any text.
type Label struct{ Name, Value string }

// Of is a sample with a value of one label.
func Of(label, value string, v uint64) Sample {
	return Sample{[]Label{{label, value}}, float64(v)}
}

// Single is a family with one sample, without labels.
func Single(name string, t Type, help string, v float64) Family {
	return Family{name, help, t, []Sample{{nil, v}}}
}

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	valueEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// WriteText writes families, in their order; those without samples are left out.
func WriteText(w io.Writer, all []Family) error {
	b := bufio.NewWriter(w)
	for i := range all {
		f := &all[i]
		if len(f.Samples) == 0 {
			continue
		}
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", f.Name, helpEscapes.Replace(f.Help), f.Name, f.Type)
		for _, s := range f.Samples {
			b.WriteString(f.Name)
			for k, l := range s.Labels {
				sep := byte(',')
				if k == 0 {
					sep = '{'
				}
				b.WriteByte(sep)
				fmt.Fprintf(b, `%s="%s"`, l.Name, valueEscapes.Replace(l.Value))
			}
			if len(s.Labels) > 0 {
				b.WriteByte('}')
			}
			b.WriteByte(' ')
			b.WriteString(strconv.FormatFloat(s.Value, 'g', -1, 64))
			b.WriteByte('\n')
		}
	}
	return b.Flush()
}
