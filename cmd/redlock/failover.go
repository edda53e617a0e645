// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// The settings that decide whether an old master stops by itself before the wait of the replica that takes its place begins (docs/operations.md, "A
// master behind failover").
const (
	minReplicas = "min-replicas-to-write"
	maxLag      = "min-replicas-max-lag"
	nodeTimeout = "cluster-node-timeout"
	coverage    = "cluster-require-full-coverage"
	downAfter   = "down-after-milliseconds" // of the sentinels
)

// stopTakes is how long after min-replicas-max-lag a master stops: it reckons the lag in whole seconds, and looks once a second.
const stopTakes = 2 * time.Second

// shortest is the shortest time until a failover begins for which there is a min-replicas-max-lag: that is a second at least.
const shortest = time.Second + stopTakes

// behind is what a master behind failover tells of it. The zero value is that of a master by itself.
type behind struct {
	settings map[string]string // one that the server does not tell is missing
	begins   time.Duration     // how long a master is out of reach before its failover begins; 0: not known
}

// behindFailover asks a master, of which info is INFO, and its sentinels.
func behindFailover(ctx context.Context, c *redis.Client, info, url string, n node.Node) behind {
	b := behind{settings: make(map[string]string)}
	var names []string
	scheme, _, _ := strings.Cut(url, ":")
	switch {
	case n.Tag() != "":
		names = []string{nodeTimeout, coverage}
	case !strings.HasSuffix(scheme, "-sentinel"):
		return b
	}
	if replicas := protocol.InfoField(info, "connected_slaves"); replicas != "0" { // without one there is no failover, and none to wait for
		names = append(names, minReplicas, maxLag)
	}
	for _, name := range names {
		if conf, err := c.ConfigGet(ctx, name).Result(); err == nil && conf[name] != "" { // with the right alone
			b.settings[name] = conf[name]
		}
	}
	if s, ok := n.(interface {
		DownAfter(ctx context.Context) time.Duration
	}); ok {
		if b.begins = s.DownAfter(ctx); b.begins > 0 {
			b.settings[downAfter] = strconv.FormatInt(b.begins.Milliseconds(), 10)
		}
	}
	if b.begins == 0 {
		b.begins = b.span(nodeTimeout, time.Millisecond)
	}
	return b
}

// span is a setting as a time. 0: not told, or none.
func (b behind) span(setting string, unit time.Duration) time.Duration {
	n, _ := strconv.Atoi(b.settings[setting])
	return time.Duration(n) * unit
}

// stopsLate says that the master may go on when its failover has begun, although it is to stop without its replicas.
func (b behind) stopsLate() bool {
	lag := b.span(maxLag, time.Second)
	return b.settings[minReplicas] != "0" && lag > 0 && b.begins > 0 && lag+stopTakes > max(b.begins, shortest)
}

// beginsEarly says that the failover begins before any master has stopped for want of its replicas.
func (b behind) beginsEarly() bool {
	return b.settings[maxLag] != "" && b.begins > 0 && b.begins < shortest
}

// failover returns what doctor says of masters behind failover that may go on voting beside the replica that took their place, or stop without need.
func failover(patients []patient, maxTTL time.Duration) (found []complaint) {
	about := func(setting string, bad func(b behind) bool, why, remedy string) {
		var values []string
		at := make(map[string][]string) // the masters, by value
		for _, p := range patients {
			if v, ok := p.failover.settings[setting]; ok && bad(p.failover) {
				if at[v] == nil {
					values = append(values, v)
				}
				at[v] = append(at[v], p.Name)
			}
		}
		for _, v := range values {
			found = append(found, complaint{"failover", fmt.Sprintf("%s: %s is %s: %s", strings.Join(at[v], ", "), setting, v, why), "failover", remedy})
		}
	}
	is := func(setting, v string) func(b behind) bool {
		return func(b behind) bool { return b.settings[setting] == v }
	}
	tooLong := func(setting string, unit time.Duration) func(b behind) bool {
		return func(b behind) bool { return b.span(setting, unit) >= maxTTL }
	}
	const beside = "a master that is cut off may go on voting beside the replica that took its place"
	const everywhere = ", on the master and its replicas"
	const limits = "from 1 s, 2 s or more below down-after-milliseconds or cluster-node-timeout, and below the maximum TTL"
	const setLag = "set min-replicas-max-lag, in seconds, " + limits + everywhere
	const early = "a master without its replicas stops after 3 s at the earliest, so "
	about(downAfter, behind.beginsEarly, early+beside, "set down-after-milliseconds to 3000 or more, on each sentinel (SENTINEL SET) and in its configuration")
	about(nodeTimeout, behind.beginsEarly, early+beside, "set cluster-node-timeout to 3000 or more, and below the maximum TTL, on every server of the cluster")
	about(nodeTimeout, tooLong(nodeTimeout, time.Millisecond), fmt.Sprintf("not below the maximum TTL of %v, so %s", maxTTL, beside),
		"set cluster-node-timeout, in milliseconds, below the maximum TTL on every server of the cluster")
	about(coverage, is(coverage, "yes"), "a share of the slots without a master stops all of them", "set cluster-require-full-coverage no on every server of the cluster")
	about(minReplicas, is(minReplicas, "0"), beside, "set min-replicas-to-write 1 and min-replicas-max-lag "+limits+everywhere)
	about(maxLag, is(maxLag, "0"), "that switches min-replicas-to-write off, so "+beside, setLag)
	about(maxLag, tooLong(maxLag, time.Second), fmt.Sprintf("not below the maximum TTL of %v, so %s", maxTTL, beside), setLag)
	about(maxLag, behind.stopsLate, "it stops up to 2 s after that, when its failover may have begun, so "+beside, setLag)
	return found
}
