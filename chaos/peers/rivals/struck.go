// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// struckText is the section of Struck, with its numbers and its table left out.
//
//go:embed struck.txt
var struckText string

// Struck are runs of the chaos harness: each nemesis strikes each library once, with the same seed.
type Struck struct {
	Seconds float64   `json:"seconds"` // of faults in each run
	TTL     float64   `json:"ttl_s"`
	Seed    uint64    `json:"seed"`
	Nemeses []Nemesis `json:"nemeses"`
}

// Nemesis is one nemesis, and what it did to each library.
type Nemesis struct {
	Name string             `json:"nemesis"`
	Runs map[string]Overlap `json:"runs"`
}

// Overlap is one run. A claim overlaps if it began while another client claimed the same lock.
type Overlap struct {
	Overlaps int    `json:"overlaps"`
	Claims   int    `json:"claims"`
	Faults   int    `json:"faults"`
	Failed   string `json:"failed,omitempty"` // why there is nothing else
}

// Head begins the table of libraries that Row goes on with.
func (s *Struck) Head(libs []string) string {
	labels := make([]string, len(libs))
	for i, lib := range libs {
		labels[i] = label(lib)
	}
	return fmt.Sprintf("| nemesis | %s | faults |\n|%s\n", strings.Join(labels, " | "), strings.Repeat(" --- |", len(libs)+2))
}

// Row is what one nemesis did.
func (n *Nemesis) Row(libs []string) string {
	cells, faults := make([]string, len(libs)), make([]string, len(libs))
	for i, lib := range libs {
		run := n.Runs[lib]
		cells[i], faults[i] = fmt.Sprintf("%d of %d", run.Overlaps, run.Claims), fmt.Sprint(run.Faults)
		if run.Failed != "" {
			cells[i] = "no result: " + strings.NewReplacer("|", "/", "\n", " ").Replace(run.Failed)
		}
	}
	return fmt.Sprintf("| %s | %s | %s |\n", n.Name, strings.Join(cells, " | "), strings.Join(faults, ", "))
}

// section is what the page says of them.
func (s *Struck) section() string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	libs := slices.DeleteFunc(slices.Clone(Libraries), func(lib string) bool {
		return !slices.ContainsFunc(s.Nemeses, func(n Nemesis) bool { _, ran := n.Runs[lib]; return ran })
	})
	b.WriteString(s.Head(libs))
	for _, n := range s.Nemeses {
		b.WriteString(n.Row(libs))
	}
	return fmt.Sprintf(struckText, s.Seconds, s.TTL, s.Seed, &b)
}
