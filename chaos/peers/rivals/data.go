// SPDX-License-Identifier: Apache-2.0

// Package rivals has what a measurement of several lock libraries saw, as raw data, and makes of them a page and its pictures. The same data make the
// same bytes.
package rivals

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/redlock-go/redlock/internal/testbed"
)

// Libraries are those that the page shows, in its order: ours first, then those on a quorum, then those on one master, then what is no lock.
var Libraries = []string{"redlock", "redsync", "redsync-tuned", "redisson", "etcd", "redislock", "rueidislock", "setnx", "floor", "resp"}

// Data are every round of every library in every cell, as they are kept in JSON.
type Data struct {
	Run      *testbed.Run      `json:"run"`
	Versions map[string]string `json:"versions"` // of the libraries
	Masters  int               `json:"masters"`
	Clients  int               `json:"clients"`
	Rounds   int               `json:"rounds"`
	Seconds  float64           `json:"seconds"` // of each measurement
	Cells    []*Cell           `json:"cells"`
	Held     []Held            `json:"held,omitempty"`
	Struck   *Struck           `json:"struck,omitempty"`
}

// Held is what it takes to keep so many locks in one process, each renewed by the library.
type Held struct {
	Library string  `json:"library"`
	Leases  int     `json:"leases"`
	Failed  string  `json:"failed,omitempty"` // why there is nothing else
	TTL     float64 `json:"ttl_s"`
	For     float64 `json:"held_s"`         // after the last was taken
	Took    float64 `json:"taken_in_s"`     // all of them
	Lost    int     `json:"lost"`           // that the library ended, or did not give back
	Memory  float64 `json:"bytes_a_lease"`  // heap and stacks of the process
	CPU     float64 `json:"cpu_share"`      // processors that the process used while it held them
	Masters float64 `json:"masters_share"`  // that all masters together used
	Keys    float64 `json:"bytes_a_master"` // for each lease, on each master that has it
}

// Cell is one question, asked of each library in each round.
type Cell struct {
	ID      string               `json:"id"`
	Callers int                  `json:"callers"`
	Hot     bool                 `json:"hot"`             // all want one lock; else each has its own
	Locks   int                  `json:"locks,omitempty"` // how many there are, which all callers take in turn; 0: see Hot
	Hold    float64              `json:"hold_ms"`
	Delay   float64              `json:"delay_ms"`                     // that proxies add to each round trip
	Slow    float64              `json:"one_master_slow_ms,omitempty"` // that a proxy adds to each round trip to it
	Hung    bool                 `json:"one_master_hung"`              // it is stopped, and answers nothing
	Dead    bool                 `json:"one_master_dead"`              // it has ended: connections to it are refused
	Asks    float64              `json:"asks_per_second"`              // of all callers together, whether they were answered or not; 0: each asks when it was answered
	Rounds  map[string][]Figures `json:"rounds"`
}

// Figures are one round of one library. Times are of acquire and release where each caller has its own lock, and of the wait where all want one. Where callers ask at fixed
// times they count from those.
type Figures struct {
	Rate     float64 `json:"locks_per_second"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Jain     float64 `json:"jain"`
	CPU      float64 `json:"cpu_us_per_lock"`         // of the process with all clients
	Masters  float64 `json:"masters_cpu_us_per_lock"` // of all masters together
	Failures int     `json:"failures"`                // calls that ended without the lock
}

// Read reads the raw data of a file. text is what stands there.
func Read(name string) (r *Data, text []byte, err error) {
	if text, err = os.ReadFile(name); err != nil {
		return nil, nil, err
	}
	r = &Data{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.Run == nil || len(r.Cells) == 0 {
		return nil, nil, fmt.Errorf("%s: no cells: want what measure --json wrote", name)
	}
	for _, c := range r.Cells {
		for lib, rounds := range c.Rounds {
			if len(rounds) == 0 {
				return nil, nil, fmt.Errorf("%s: %s has no round of %s", name, c.ID, lib)
			}
		}
	}
	return r, text, nil
}

// Write writes results.md and its pictures to a folder, and text, which is the data, as results.json beside them.
func (r *Data) Write(folder string, text []byte) error {
	errs := []error{os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "results.json"), text, 0o644), os.WriteFile(filepath.Join(folder, "results.md"), []byte(r.page()), 0o644)}
	for _, p := range r.pictures() {
		errs = append(errs, os.WriteFile(filepath.Join(folder, p.file), []byte(p.svg()), 0o644))
	}
	return errors.Join(errs...)
}
