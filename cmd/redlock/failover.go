// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// failoverSettings are what makes an old master stop by itself when a replica takes its place (docs/operations.md, "A master behind failover"), as the
// server tells: one that it does not tell is missing. A master by itself has none.
func failoverSettings(ctx context.Context, c *redis.Client, url, tag string) map[string]string {
	var names []string
	switch scheme, _, _ := strings.Cut(url, ":"); {
	case tag != "":
		names = []string{"cluster-node-timeout", "cluster-require-full-coverage"}
	case strings.HasSuffix(scheme, "-sentinel"):
		names = []string{"min-replicas-to-write", "min-replicas-max-lag"}
	}
	settings := make(map[string]string)
	for _, name := range names {
		if conf, err := c.ConfigGet(ctx, name).Result(); err == nil && conf[name] != "" { // with the right alone
			settings[name] = conf[name]
		}
	}
	return settings
}

// failover returns what doctor says of masters behind failover that may go on voting beside the replica that took their place, or stop without need.
func failover(patients []patient, maxTTL time.Duration) (found []complaint) {
	about := func(setting string, bad func(value string) bool, why, remedy string) {
		var values []string
		at := make(map[string][]string) // the masters, by value
		for _, p := range patients {
			if v, ok := p.failover[setting]; ok && bad(v) {
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
	tooLong := func(unit time.Duration) func(string) bool {
		return func(v string) bool {
			n, err := strconv.Atoi(v)
			return err == nil && time.Duration(n)*unit >= maxTTL
		}
	}
	is := func(v string) func(string) bool { return func(s string) bool { return s == v } }
	const beside = "a master that is cut off may go on voting beside the replica that took its place"
	about("cluster-node-timeout", tooLong(time.Millisecond), fmt.Sprintf("not below the maximum TTL of %v, so %s", maxTTL, beside),
		"set cluster-node-timeout, in milliseconds, below the maximum TTL on every server of the cluster")
	about("cluster-require-full-coverage", is("yes"), "a share of the slots without a master stops all of them", "set cluster-require-full-coverage no on every server of the cluster")
	about("min-replicas-to-write", is("0"), beside, "set min-replicas-to-write 1 and min-replicas-max-lag from 1 s, below the maximum TTL and the time after which its failover begins, on the master and its replicas")
	about("min-replicas-max-lag", is("0"), "that switches min-replicas-to-write off, so "+beside,
		"set min-replicas-max-lag, in seconds, from 1 and below the maximum TTL and the time after which its failover begins, on the master and its replicas")
	about("min-replicas-max-lag", tooLong(time.Second), fmt.Sprintf("not below the maximum TTL of %v, so %s", maxTTL, beside),
		"set min-replicas-max-lag, in seconds, below the maximum TTL and the time after which its failover begins, on the master and its replicas")
	return found
}
