// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/node"
)

// The settings that decide whether an old master stops by itself before the wait of the replica that takes its place begins (docs/operations.md, "A
// master behind failover").
const (
	minReplicas = "min-replicas-to-write"
	maxLag      = "min-replicas-max-lag"
	nodeTimeout = "cluster-node-timeout"
	coverage    = "cluster-require-full-coverage"
	downAfter   = "down-after-milliseconds" // of a sentinel
)

// stopTakes is how long after min-replicas-max-lag a master stops: it reckons the lag in whole seconds, and looks once a second.
const stopTakes = 2 * time.Second

// failoverSettings are those of a master, as it and its sentinels tell: one that they do not tell is missing. A master by itself has none.
func failoverSettings(ctx context.Context, c *redis.Client, url string, n node.Node) map[string]string {
	var names []string
	switch scheme, _, _ := strings.Cut(url, ":"); {
	case n.Tag() != "":
		names = []string{nodeTimeout, coverage, minReplicas, maxLag}
	case strings.HasSuffix(scheme, "-sentinel"):
		names = []string{minReplicas, maxLag}
	}
	settings := make(map[string]string)
	for _, name := range names {
		if conf, err := c.ConfigGet(ctx, name).Result(); err == nil && conf[name] != "" { // with the right alone
			settings[name] = conf[name]
		}
	}
	if s, ok := n.(interface {
		SentinelSetting(ctx context.Context, name string) string
	}); ok && len(names) > 0 {
		if v := s.SentinelSetting(ctx, downAfter); v != "" {
			settings[downAfter] = v
		}
	}
	return settings
}

// failover returns what doctor says of masters behind failover that may go on voting beside the replica that took their place, or stop without need.
func failover(patients []patient, maxTTL time.Duration) (found []complaint) {
	about := func(setting string, bad func(p patient) bool, why, remedy string) {
		var values []string
		at := make(map[string][]string) // the masters, by value
		for _, p := range patients {
			if v, ok := p.failover[setting]; ok && bad(p) {
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
	span := func(p patient, setting string, unit time.Duration) time.Duration { // 0: not told, or none
		n, _ := strconv.Atoi(p.failover[setting])
		return time.Duration(n) * unit
	}
	is := func(setting, v string) func(p patient) bool {
		return func(p patient) bool { return p.failover[setting] == v }
	}
	tooLong := func(setting string, unit time.Duration) func(p patient) bool {
		return func(p patient) bool { return span(p, setting, unit) >= maxTTL }
	}
	late := func(p patient) bool { // it stops when its failover may have begun
		begins := max(span(p, downAfter, time.Millisecond), span(p, nodeTimeout, time.Millisecond)) // it has one of them
		return begins > 0 && !is(minReplicas, "0")(p) && !is(maxLag, "0")(p) && span(p, maxLag, time.Second)+stopTakes > begins
	}
	const beside = "a master that is cut off may go on voting beside the replica that took its place"
	const everywhere = "on the master and its replicas"
	limits := fmt.Sprintf("from 1 s, 2 s or more below %s or %s, and below the maximum TTL", downAfter, nodeTimeout)
	about(nodeTimeout, tooLong(nodeTimeout, time.Millisecond), fmt.Sprintf("not below the maximum TTL of %v, so %s", maxTTL, beside),
		"set cluster-node-timeout, in milliseconds, below the maximum TTL on every server of the cluster")
	about(coverage, is(coverage, "yes"), "a share of the slots without a master stops all of them", "set cluster-require-full-coverage no on every server of the cluster")
	about(minReplicas, is(minReplicas, "0"), beside, fmt.Sprintf("set min-replicas-to-write 1 and min-replicas-max-lag %s, %s", limits, everywhere))
	about(maxLag, is(maxLag, "0"), "that switches min-replicas-to-write off, so "+beside, fmt.Sprintf("set min-replicas-max-lag, in seconds, %s, %s", limits, everywhere))
	about(maxLag, tooLong(maxLag, time.Second), fmt.Sprintf("not below the maximum TTL of %v, so %s", maxTTL, beside),
		fmt.Sprintf("set min-replicas-max-lag, in seconds, %s, %s", limits, everywhere))
	about(maxLag, late, "it stops up to 2 s after that, when its failover may have begun, so "+beside,
		fmt.Sprintf("set min-replicas-max-lag, in seconds, %s, %s", limits, everywhere))
	return found
}
