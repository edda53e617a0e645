// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Upgrade says how Master.Upgrade replaces a server.
type Upgrade struct {
	From, To string // the versions: "redis 6.2.14", "valkey 8.1.1"
	Kept     bool   // the new server has the data of the old one, without the last writes if those were not on disk
	Orderly  bool   // the old server was shut down: it has saved everything
}

func (u Upgrade) String() string {
	data := "without its data"
	if u.Kept {
		data = "with its data"
	}
	how := "killed"
	if u.Orderly {
		how = "shut down"
	}
	return fmt.Sprintf("from %s, %s, to %s, %s", u.From, how, u.To, data)
}

// Programs returns the programs of Config.Servers that a master can be upgraded to: those that can read its data, and the others, which start
// empty.
func (m *Master) Programs() (onData, empty []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, program := range slices.Compact(slices.Sorted(slices.Values(m.cluster.cfg.Servers))) {
		switch version := m.cluster.version; {
		case program == m.program:
		case reads(version[program], version[m.program]):
			onData = append(onData, program)
		default:
			empty = append(empty, program)
		}
	}
	return onData, empty
}

// Upgrade stops the server, in order if orderly is set, else with SIGKILL, and starts another of Config.Servers on the same address. The new one
// gets the data that the old one left, if its version can read them. Otherwise it starts empty, as on the way back from an upgrade. After an error
// the server may be down.
func (m *Master) Upgrade(ctx context.Context, program string, orderly bool) (Upgrade, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := m.upgrade(ctx, program, orderly)
	return u, m.wrap("upgrade", err)
}

func (m *Master) upgrade(ctx context.Context, program string, orderly bool) (Upgrade, error) {
	u := Upgrade{From: m.cluster.version[m.program], To: m.cluster.version[program], Orderly: orderly}
	if u.From == "" || u.To == "" || m.source != nil {
		return u, fmt.Errorf("%q to %q: want programs of Config.Servers, and a master", m.program, program)
	}
	u.Kept = reads(u.To, u.From) && (orderly || m.cluster.cfg.Persistence != None)
	if orderly {
		if err := m.shutdown(ctx); err != nil {
			return u, err
		}
	}
	err := m.server.kill(ctx)
	if err == nil && !u.Kept {
		err = wipe(m.server.dir())
	}
	if err == nil {
		err = m.server.use(program)
	}
	if err != nil {
		return u, err
	}
	m.program = program
	return u, m.start(ctx)
}

// shutdown has the server save its data and end. It returns when the connection ends, and then everything is on disk.
func (m *Master) shutdown(ctx context.Context) error {
	return withRedis(ctx, m.Addr(), func(c *redis.Client) error { return c.ShutdownSave(ctx).Err() })
}

// reads tells whether a server of the version program can start on the data of a server of the version data. A newer version of the same server
// can, and Valkey can up to Redis 7.2, which it was made from. Nothing is known of the rest.
func reads(program, data string) bool {
	to, toVersion, _ := strings.Cut(program, " ")
	from, fromVersion, _ := strings.Cut(data, " ")
	switch {
	case to == from:
		return slices.Compare(numbers(fromVersion), numbers(toVersion)) <= 0
	case to == "valkey" && from == "redis":
		return slices.Compare(numbers(fromVersion), []int{7, 3}) < 0
	}
	return false
}

// numbers is 7, 0 and 15 for 7.0.15.
func numbers(version string) (ns []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return ns
		}
		ns = append(ns, n)
	}
	return ns
}
