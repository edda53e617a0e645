// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/node/internal/locate"
)

// recordFields are the fields of a record that say to which list the record belongs.
var recordFields = []string{membership.FieldState, membership.FieldPlan, membership.FieldTerms, membership.FieldOver}

// OtherRecords reads the node records in the other databases of the master's server, by the
// number of the database. Databases that the user may not read are left out. It uses a
// connection of its own, because the lane's must stay in its database.
func (r *redisNode) OtherRecords(ctx context.Context) (map[int]map[string]string, error) {
	if _, slot := r.locator.(*locate.Slot); slot {
		return nil, nil // a cluster has one database
	}
	ctx, cancel := context.WithTimeout(ctx, 2*r.cfg.DialTimeout)
	defer cancel()
	opts, socket, _, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer closeWith(ctx, socket)()
	client := redis.NewClient(&opts)
	defer func() { _ = client.Close() }()
	cn := client.Conn()
	defer func() { _ = cn.Close() }()
	info, err := cn.Info(ctx, "keyspace").Result()
	if err != nil {
		return nil, err
	}
	found := make(map[int]map[string]string)
	for _, db := range databases(info) {
		if db == opts.DB {
			continue
		}
		pipe := cn.Pipeline()
		selected, values := pipe.Select(ctx, db), pipe.HMGet(ctx, r.keys.Record, recordFields...)
		_, _ = pipe.Exec(ctx) // each command has its error
		if selected.Err() != nil || values.Err() != nil {
			continue
		}
		fields := make(map[string]string)
		for i, v := range values.Val() {
			if s, ok := v.(string); ok {
				fields[recordFields[i]] = s
			}
		}
		if len(fields) > 0 {
			found[db] = fields
		}
	}
	return found, ctx.Err()
}

// databases returns the numbers of the databases that have keys, as INFO keyspace lists them.
func databases(info string) (all []int) {
	for line := range strings.Lines(info) {
		name, _, _ := strings.Cut(line, ":")
		if number, ok := strings.CutPrefix(name, "db"); ok {
			if db, err := strconv.Atoi(number); err == nil {
				all = append(all, db)
			}
		}
	}
	return all
}
