// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The most memory that was seen in use: by a client with its part of the history, by a master, and by the harness with the whole history.
const (
	clientMemory  = 80 << 20
	masterMemory  = 20 << 20
	harnessMemory = 200 << 20
)

var meminfo = "/proc/meminfo" // another one in tests

// preflight returns an error if the host has too little memory for a run: the kernel would kill masters during the run, and the history
// would blame no nemesis. It returns nil if the host does not say how much memory it has.
func preflight(masters, clients int) error {
	b, err := os.ReadFile(meminfo)
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(b), "MemAvailable:")
	line, _, _ := strings.Cut(rest, "\n")
	kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
	need := int64(harnessMemory + masters*masterMemory + clients*clientMemory)
	if err != nil || kb<<10 >= need {
		return nil
	}
	return fmt.Errorf("chaos: %d MB of memory are free, and %d masters with %d clients need %d MB: end other programs, or run fewer masters and clients",
		kb>>10, masters, clients, need>>20)
}
