// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	dc "github.com/ory/dockertest/v3/docker"

	"github.com/redlock-go/redlock/chaos/cluster/leftover"
)

// maxLog bounds what Logs returns of one server: the end of its log.
const maxLog = 1 << 20

// Logs returns the logs of the servers that the cluster has, and of the replicas and of the masters that replicas replaced, by name. It
// leaves out a log that cannot be read.
func (c *Cluster) Logs(ctx context.Context) map[string][]byte {
	logs := map[string][]byte{}
	if d, ok := c.driver.(*containers); ok {
		for name, log := range d.logs(ctx) {
			logs[name] = tail(log)
		}
		return logs
	}
	// Under the process driver each member has a folder with its name, and each server a folder in it.
	paths, _ := filepath.Glob(filepath.Join(c.dir, "*", "*", "redis.log")) // the pattern is good
	for _, path := range paths {
		if log, err := os.ReadFile(path); err == nil {
			name := filepath.Base(filepath.Dir(filepath.Dir(path)))
			logs[name] = tail(append(logs[name], log...))
		}
	}
	return logs
}

// tail returns the end of a log.
func tail(log []byte) []byte { return log[max(0, len(log)-maxLog):] }

// logs returns the logs of the containers of the run.
func (d *containers) logs(ctx context.Context) map[string][]byte {
	logs := map[string][]byte{}
	opts := dc.ListContainersOptions{All: true, Filters: map[string][]string{"label": {leftover.RunLabel + "=" + d.run}}, Context: ctx}
	list, err := d.pool.Client.ListContainers(opts)
	if err != nil {
		return logs
	}
	for _, c := range list {
		var log bytes.Buffer
		err := d.pool.Client.Logs(dc.LogsOptions{Container: c.ID, Context: ctx, Stdout: true, Stderr: true, OutputStream: &log, ErrorStream: &log})
		if err == nil && len(c.Names) > 0 {
			logs[strings.TrimPrefix(c.Names[0], "/redlock-"+d.run+"-")] = log.Bytes()
		}
	}
	return logs
}
