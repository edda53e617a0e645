// SPDX-License-Identifier: Apache-2.0

// Package testbed says where, when and by which build something was measured: it stands beside figures.
package testbed

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Run is where, when and by which build something was measured.
type Run struct {
	At      time.Time `json:"at"`
	Command string    `json:"command"` // that measures it again
	Masters string    `json:"masters"`
	Machine string    `json:"machine"`
	Go      string    `json:"go"`
	Build   string    `json:"build,omitempty"` // version or commit, if the program knows it
}

// Here is a run of this program on this machine, now.
func Here(command, masters string) *Run {
	machine := fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if model := line("/proc/cpuinfo", "model name"); model != "" {
		machine += ", " + model
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		machine += ", kernel " + strings.TrimSpace(string(kernel))
	}
	return &Run{At: time.Now().UTC().Truncate(time.Second), Command: command, Masters: masters, Machine: machine, Go: runtime.Version(), Build: build()}
}

// line is the value of the first line "name : value" of a file, or "".
func line(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	switch commit := set["vcs.revision"]; {
	case commit != "" && set["vcs.modified"] == "true":
		return commit + ", changed"
	case commit != "":
		return commit
	case info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return ""
}
