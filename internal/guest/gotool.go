package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goDirs gives the module's directory and GOROOT.
func goDirs(ctx context.Context) (module, goroot string, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD", "GOROOT").Output()
	if err != nil {
		return "", "", fmt.Errorf("go env: %w", err)
	}
	f := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(f) != 2 || f[0] == "" || f[0] == os.DevNull {
		return "", "", errors.New("not in the module: run this in its tree")
	}
	return filepath.Dir(f[0]), f[1], nil
}
