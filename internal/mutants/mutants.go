package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Mutant is the code without a mend.
type Mutant struct {
	ID    string // of the story or rule
	Mend  string // what is taken out
	Pkg   string // of the test, below the module
	Test  string // what go test -run takes; every level of it must be seen to fail
	Edits []Edit
}

// Edit replaces Old, which occurs once in File.
type Edit struct{ File, Old, New string }

// Parse reads mutants. A block is
//
//	mutant F01 what is taken out
//	test ./package TestX/F01
//	file path/of/file.go
//	- a line of the old text
//	+ a line of the new one
//
// where a further "file" line begins another edit. Lines that begin with # are comments. Indentation counts.
func Parse(text string) ([]Mutant, error) {
	var out []Mutant
	for i, line := range strings.Split(text, "\n") {
		bad := func(why string) error { return fmt.Errorf("line %d: %s: %q", i+1, why, line) }
		key, rest, _ := strings.Cut(line, " ")
		if key == "" || strings.HasPrefix(key, "#") {
			continue
		}
		if key == "mutant" {
			id, mend, _ := strings.Cut(rest, " ")
			out = append(out, Mutant{ID: id, Mend: mend})
			continue
		}
		if len(out) == 0 {
			return nil, bad("outside a mutant")
		}
		m := &out[len(out)-1]
		switch key {
		case "test":
			m.Pkg, m.Test, _ = strings.Cut(rest, " ")
		case "file":
			m.Edits = append(m.Edits, Edit{File: rest})
		case "-", "+":
			if len(m.Edits) == 0 {
				return nil, bad("no file")
			}
			e := &m.Edits[len(m.Edits)-1]
			if key == "-" {
				e.Old += rest + "\n"
			} else {
				e.New += rest + "\n"
			}
		default:
			return nil, bad("unknown word")
		}
	}
	for i := range out {
		m := &out[i]
		if m.ID == "" || m.Mend == "" || m.Pkg == "" || m.Test == "" || len(m.Edits) == 0 {
			return nil, fmt.Errorf("mutant %d, %q: it lacks something", i+1, m.ID)
		}
	}
	return out, nil
}

// Apply gives the text of each file of m with its edits, by path below root.
func (m *Mutant) Apply(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range m.Edits {
		text, ok := files[e.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.ID, err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); e.Old == "" || n != 1 {
			return nil, fmt.Errorf("%s (%s): the old text occurs %d times in %s, not once:\n%s", m.ID, m.Mend, n, e.File, e.Old)
		}
		files[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return files, nil
}

// Verdict is what a test said of a mutant.
type Verdict string

// The verdicts; only the first two are right.
const (
	Seen     Verdict = "seen to fail"
	Panicked Verdict = "seen to panic"
	NotSeen  Verdict = "NOT SEEN"
	NoBuild  Verdict = "does not build"
	Hung     Verdict = "HANGS"
)

// Good says that the test noticed.
func (v Verdict) Good() bool { return v == Seen || v == Panicked }

// limited runs a test with 10 GiB of address space: a mutant without a bound may take all memory of the machine, which
// F04's did. The stories take 1.6 GB without a mutant, F11's mutant 6.4 (and touches 0.9).
const limited = `sh -c 'ulimit -v 10485760; exec "$@"' sh`

// Run tests m in a copy made by overlay, and gives the first line that says what was wrong.
func (m *Mutant) Run(root, dir string) (v Verdict, why string, err error) {
	files, err := m.Apply(root)
	if err != nil {
		return "", "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range files {
		abs, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", "", err
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay.Replace)))
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return "", "", err
		}
		overlay.Replace[abs] = to
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, b, 0o644); err != nil {
		return "", "", err
	}
	parts := strings.Split(m.Test, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-timeout=180s", "-exec", limited, "-overlay", list,
		"-run", strings.Join(parts, "/"), m.Pkg)
	cmd.Dir = root
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
	v, why = judge(out.String(), m.Test, runErr != nil)
	return v, why, nil
}

// judge reads the output of go test.
func judge(out, test string, failed bool) (Verdict, string) {
	switch {
	case !failed:
		return NotSeen, ""
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return NoBuild, firstLine(out, ".go:")
	case strings.Contains(out, "panic: test timed out"):
		return Hung, ""
	case strings.Contains(out, "panic: "):
		return Panicked, firstLine(out, "panic: ")
	case strings.Contains(out, "fatal error: "): // of the runtime: no memory, say
		return Panicked, firstLine(out, "fatal error: ")
	case strings.Contains(out, "--- FAIL: "+test+" "), strings.Contains(out, "--- FAIL: "+test+"/"):
		return Seen, firstLine(out, "Error:")
	}
	return NotSeen, firstLine(out, "FAIL")
}

// firstLine is the first line of text with a word in it, not too long.
func firstLine(text, word string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if i := strings.Index(line, word); i >= 0 {
			line = strings.Join(strings.Fields(line), " ")
			line = strings.TrimPrefix(line, "Error: ")
			return line[:min(len(line), 110)]
		}
	}
	return ""
}
