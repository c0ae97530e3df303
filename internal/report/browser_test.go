package report

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"image/color"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser runs headless Chromium; the test is skipped where there is none.
type browser struct {
	t    *testing.T
	path string
	dir  string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return &browser{t, p, t.TempDir()}
		}
	}
	t.Skip("chromium is not in PATH: make test-report installs it")
	return nil
}

// visit is what happened when a page was opened.
type visit struct {
	dom     string
	console []string // messages
	outside []string // addresses asked for, other than files
}

// open opens a file, in a profile of its own that finds no host.
func (b *browser) open(file string, more ...string) visit {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	profile, err := os.MkdirTemp(b.dir, "profile")
	require.NoError(b.t, err)
	net := filepath.Join(profile, "net.json")
	args := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + profile, "--host-resolver-rules=MAP * ~NOTFOUND",
		"--enable-logging=stderr", "--log-net-log=" + net}, more...)
	cmd := exec.CommandContext(ctx, b.path, append(args, (&url.URL{Scheme: "file", Path: file}).String())...)
	cmd.WaitDelay = 5 * time.Second
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(b.t, cmd.Run(), "%s", log.String())
	v := visit{dom: out.String()}
	for _, l := range strings.Split(log.String(), "\n") {
		if strings.Contains(l, ":CONSOLE") {
			v.console = append(v.console, l)
		}
	}
	v.outside = outsideRequests(b.t, net)
	return v
}

// outsideRequests are the addresses in a log of Chromium's network stack that pages asked for.
func outsideRequests(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	var log struct {
		Events []struct {
			Params struct {
				URL       string `json:"url"`
				Initiator string `json:"initiator"`
			} `json:"params"`
		} `json:"events"`
	}
	require.NoError(t, json.Unmarshal(b, &log))
	var out []string
	for _, e := range log.Events {
		u := e.Params.URL
		// What no page began is the browser's own.
		if u != "" && e.Params.Initiator != "" && e.Params.Initiator != "not an origin" && !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "data:") {
			out = append(out, u)
		}
	}
	return out
}

// pixels counts those of a PNG by colour.
func pixels(t *testing.T, name string) map[color.RGBA]int {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	out := map[color.RGBA]int{}
	r := img.Bounds()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			out[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)]++
		}
	}
	return out
}

func TestHTMLInBrowser(t *testing.T) {
	b := newBrowser(t)
	page := filepath.Join(t.TempDir(), "sweep.html")
	html := render(t, "html", testCells(t))
	require.NoError(t, os.WriteFile(page, []byte(html), 0o644))

	v := b.open(page, "--dump-dom")
	assert.Empty(t, v.console)
	assert.Empty(t, v.outside)
	plots := len(svgs.FindAllString(html, -1))
	require.Greater(t, plots, 10)
	wantSound(t, v.dom, plots)

	shot := os.Getenv("NFSRDMA_SCREENSHOT") // keeps it
	if shot == "" {
		shot = filepath.Join(t.TempDir(), "shot.png")
	}
	v = b.open(page, "--screenshot="+shot, "--window-size=1280,3600", "--force-device-scale-factor=1", "--blink-settings=preferredColorScheme=1")
	assert.Empty(t, v.console)
	assert.Empty(t, v.outside)
	n := pixels(t, shot)
	for _, m := range regexp.MustCompile(`--(c[012]|bad):#([0-9a-f]{6})[;}]`).FindAllStringSubmatch(lightStyle(html), -1) {
		rgb, err := hex.DecodeString(m[2])
		require.NoError(t, err)
		assert.Greater(t, n[color.RGBA{rgb[0], rgb[1], rgb[2], 255}], 200, "pixels of %s", m[1])
	}
}

// lightStyle is the part of the style before that of dark screens.
func lightStyle(page string) string {
	before, _, _ := strings.Cut(page, "@media (prefers-color-scheme:dark)")
	return before
}

// The browser's checks see what they are there for.
func TestBrowserSeesTrouble(t *testing.T) {
	b := newBrowser(t)
	page := filepath.Join(t.TempDir(), "bad.html")
	require.NoError(t, os.WriteFile(page, []byte(`<!DOCTYPE html><title>x</title><img src="http://outside.example/x.png"><script>console.error("trouble")</script>`), 0o644))
	v := b.open(page, "--dump-dom")
	assert.Contains(t, strings.Join(v.console, "\n"), "trouble")
	assert.Contains(t, v.outside, "http://outside.example/x.png")
}
