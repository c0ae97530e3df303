package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"example.org/nfsrdma/fabric"
)

// load is a line of the table.
type load struct {
	name  string
	op    fabric.Op
	rw    string // of fio
	size  int
	depth int
}

var loads = []load{
	{"READ 4 KiB, depth 1", fabric.Read, "randread", 4 << 10, 1},
	{"READ 4 KiB, depth 16", fabric.Read, "randread", 4 << 10, 16},
	{"READ 64 KiB, depth 16", fabric.Read, "read", 64 << 10, 16},
	{"WRITE 64 KiB, depth 16", fabric.Write, "write", 64 << 10, 16},
	{"READ 1 MiB, depth 4", fabric.Read, "read", 1 << 20, 4},
	{"WRITE 1 MiB, depth 4", fabric.Write, "write", 1 << 20, 4},
}

const fileSize = 64 << 20

func main() {
	d := flag.Duration("time", 3*time.Second, "for how long each figure is measured")
	flag.Parse()
	if err := run(*d); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func run(d time.Duration) error {
	dev, addr := os.Getenv("NFSRDMA_DEVICE"), os.Getenv("NFSRDMA_ADDR")
	if os.Getenv("NFSRDMA_GUEST") == "" || dev == "" {
		return fmt.Errorf("runs in a guest with a device: make guest-bench")
	}
	ours, err := measureOurs(d)
	if err != nil {
		return err
	}
	kernel, err := measureKernel(addr, d)
	if err != nil {
		return err
	}
	fmt.Printf("%s, MB/s (10^6), %v each\n\n| load | ours | kernel | ours/kernel |\n|---|---|---|---|\n", dev, d)
	for i, l := range loads {
		fmt.Printf("| %s | %.1f | %.1f | %.2f |\n", l.name, ours[i]/1e6, kernel[i]/1e6, ours[i]/kernel[i])
	}
	fmt.Println()
	for _, p := range []struct{ name, program string }{{"RDMA READ", "ib_read_bw"}, {"RDMA WRITE", "ib_write_bw"}} {
		for _, size := range []int{64 << 10, 1 << 20} {
			v, err := perftest(p.program, dev, addr, size)
			if err != nil {
				return err
			}
			fmt.Printf("perftest %s %d KiB: %.1f MB/s\n", p.name, size>>10, v/1e6)
		}
	}
	return nil
}

func measureOurs(d time.Duration) ([]float64, error) {
	f, err := fabric.Start(fabric.Params{Threads: 4})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []float64
	for _, l := range loads {
		r, err := f.RunLoad(context.Background(), fabric.Load{Op: l.op, Size: l.size, Depth: l.depth,
			Random: l.rw == "randread", FileSize: fileSize, Time: d, Name: "f"})
		if err != nil {
			return nil, fmt.Errorf("ours, %s: %w", l.name, err)
		}
		out = append(out, r.Throughput())
	}
	return out, nil
}

func sh(argv ...string) (string, error) {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out), nil
}

// measureKernel runs fio with O_DIRECT on a mount of the kernel's server, exported from a tmpfs.
func measureKernel(addr string, d time.Duration) ([]float64, error) {
	for _, argv := range [][]string{
		{"guest-nfsd", "start", "4", "200m"},
		{"mount.nfs", addr + ":/export", "/mnt", "-o", "rdma,port=20049,vers=3,nolock,mountproto=tcp"},
		{"dd", "if=/dev/urandom", "of=/export/f", "bs=1M", "count=" + strconv.Itoa(fileSize>>20)},
	} {
		if _, err := sh(argv...); err != nil {
			return nil, err
		}
	}
	defer func() {
		_, _ = sh("umount", "/mnt")
		_, _ = sh("guest-nfsd", "stop")
	}()
	var out []float64
	for _, l := range loads {
		v, err := fio(l, d)
		if err != nil {
			return nil, fmt.Errorf("kernel, %s: %w", l.name, err)
		}
		out = append(out, v)
	}
	return out, nil
}

func fio(l load, d time.Duration) (float64, error) {
	out, err := exec.Command("fio", "--name=f", "--filename=/mnt/f", "--direct=1", "--ioengine=libaio", "--rw="+l.rw,
		"--bs="+strconv.Itoa(l.size), "--iodepth="+strconv.Itoa(l.depth), "--size="+strconv.Itoa(fileSize), "--time_based",
		"--runtime="+strconv.Itoa(int(d.Milliseconds()))+"ms", "--output-format=json", "--overwrite=1", "--fallocate=none").Output()
	if err != nil {
		return 0, fmt.Errorf("fio: %w", err)
	}
	var res struct {
		Jobs []struct {
			Read, Write struct {
				BwBytes float64 `json:"bw_bytes"`
			}
		}
	}
	if i := strings.IndexByte(string(out), '{'); i >= 0 {
		out = out[i:]
	}
	if err := json.Unmarshal(out, &res); err != nil {
		return 0, fmt.Errorf("fio's output: %w", err)
	}
	if len(res.Jobs) != 1 {
		return 0, fmt.Errorf("fio ran %d jobs", len(res.Jobs))
	}
	return max(res.Jobs[0].Read.BwBytes, res.Jobs[0].Write.BwBytes), nil
}

var bwLine = regexp.MustCompile(`(?m)^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s`)

// perftest is the average bandwidth in bytes a second.
func perftest(program, dev, addr string, size int) (float64, error) {
	argv := []string{"-d", dev, "-R", "-F", "-n", "300", "-t", "16", "-s", strconv.Itoa(size), "-p", "18515"}
	server := exec.Command(program, argv...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	var out []byte
	var err error
	for range 50 { // until it listens
		time.Sleep(100 * time.Millisecond)
		if out, err = exec.Command(program, append(argv, addr)...).CombinedOutput(); err == nil {
			break
		}
	}
	if err != nil {
		_ = server.Process.Kill()
		_ = server.Wait()
		return 0, fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	if err := server.Wait(); err != nil {
		return 0, fmt.Errorf("%s, the server: %w", program, err)
	}
	m := bwLine.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s printed no bandwidth:\n%s", program, out)
	}
	mib, err := strconv.ParseFloat(string(m[1]), 64)
	return mib * (1 << 20), err
}
