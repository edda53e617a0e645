// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/redis/go-redis/v9"
)

// serverLog is what the process driver keeps among the data files.
const serverLog = "redis.log"

// Snapshot copies the running server's data away, with all it has acknowledged, in place of an earlier Snapshot. The server goes on. On an
// error there is no snapshot.
func (m *Master) Snapshot(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.snapshot(ctx)
	if err != nil {
		err = errors.Join(err, os.RemoveAll(m.snapshotDir()))
	}
	return m.wrap("snapshot", err)
}

func (m *Master) snapshot(ctx context.Context) error {
	if err := os.RemoveAll(m.snapshotDir()); err != nil {
		return err
	}
	err := m.flush(ctx)
	if err == nil {
		err = os.CopyFS(m.snapshotDir(), os.DirFS(m.server.dir()))
	}
	return errors.Join(err, m.unflush(context.WithoutCancel(ctx)))
}

// RollBack kills the server, puts the last Snapshot in place of its data and starts it again: a machine restored from an old image, but
// for its run_id, which is new. Keys past their TTL do not come back. After an error the server may be down and its data incomplete.
func (m *Master) RollBack(ctx context.Context) error { return m.do(ctx, "roll back", m.rollBack) }

func (m *Master) rollBack(ctx context.Context) error {
	if _, err := os.Stat(m.snapshotDir()); err != nil {
		return fmt.Errorf("no snapshot; take one with Snapshot: %w", err)
	}
	if err := m.server.kill(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(m.snapshotDir(), serverLog)); err != nil { // not data; the server has a newer one
		return err
	}
	if err := wipe(m.server.dir()); err != nil {
		return err
	}
	if err := os.CopyFS(m.server.dir(), os.DirFS(m.snapshotDir())); err != nil {
		return err
	}
	return m.start(ctx)
}

func (m *Master) snapshotDir() string { return filepath.Join(m.cluster.dir, m.name, "snapshot") }

// flush makes the data files hold everything the server has acknowledged. Without persistence there are none, so it has one written; see
// Start for its end. With it, the append-only file may lag behind while an fsync is under way in the background; under appendfsync always it
// cannot, and the reply to that very setting comes after the write.
func (m *Master) flush(ctx context.Context) error {
	if m.cluster.cfg.Persistence == None {
		return m.redis(ctx, func(c *redis.Client) error { return c.Save(ctx).Err() })
	}
	// A replica rewrites its file after a full synchronisation; a copy of that would mix two generations.
	if err := m.awaitInfo(ctx, "persistence", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"); err != nil {
		return err
	}
	return m.redis(ctx, func(c *redis.Client) error { return c.ConfigSet(ctx, "appendfsync", string(Always)).Err() })
}

// unflush takes flush's setting back.
func (m *Master) unflush(ctx context.Context) error {
	p := m.cluster.cfg.Persistence
	if p == None {
		return nil
	}
	return m.redis(ctx, func(c *redis.Client) error { return c.ConfigSet(ctx, "appendfsync", string(p)).Err() })
}

// wipe empties a data directory.
func wipe(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != serverLog {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
