// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// ErrWrongType is Redis's answer to a command on a key of another type.
var ErrWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")

// Data is the data set of a [Master]: keys with their values and TTLs. A copy is a
// snapshot, as an RDB file or a replica is; see [Master.Snapshot].
type Data struct {
	keys map[string]*value
}

// value is one key's. Exactly one of hash, zset and str is set.
type value struct {
	hash    *hash
	zset    zset
	str     *string
	expires int64 // in ms on the master's clock; 0: never
}

// hash keeps its fields in the order in which they came, as Redis does with
// small ones: scripts that go through a hash and stop half-way depend on it.
type hash struct {
	vals  map[string]string
	order []string
}

// zset is in order: by score, then member.
type zset []member

type member struct {
	score float64
	name  string
}

func (z zset) index(name string) int {
	return slices.IndexFunc(z, func(m member) bool { return m.name == name })
}

func newData() *Data { return &Data{keys: make(map[string]*value)} }

func (d *Data) clone() *Data {
	c := newData()
	for k, v := range d.keys {
		w := &value{zset: slices.Clone(v.zset), str: v.str, expires: v.expires}
		if v.hash != nil {
			w.hash = &hash{maps.Clone(v.hash.vals), slices.Clone(v.hash.order)}
		}
		c.keys[k] = w
	}
	return c
}

// DB is a data set as one script sees it: Redis's commands under Redis's names,
// at one instant of the master's clock. It does not contain expired keys.
//
// A command that Redis would refuse sets Err. From then on every command does nothing
// and returns zero. A Lua script ends in the same way at the first error of redis.call,
// and what it wrote before remains. Only the function that was called with a DB may use
// it, in one goroutine.
type DB struct {
	data    *Data
	time    time.Duration // since 1970
	now     int64         // the same in ms
	err     error
	publish func(channel, payload string) int
	hears   func(channel string) int
	refuses error // what writes are answered; nil: they are done
	wrote   bool  // a write of this script was done
	calls   func(command string)
}

// Time is the master's clock, in microseconds since 1970.
func (db *DB) Time() int64 { return db.time.Microseconds() }

// Err is the first error of a command, or nil.
func (db *DB) Err() error { return db.err }

// find returns the value at key, or nil if there is none or it has expired. As in Redis, a
// key exists through the millisecond in which its TTL ends.
func (db *DB) find(key string) *value {
	if db.err != nil {
		return nil
	}
	v := db.data.keys[key]
	if v != nil && v.expires != 0 && db.now > v.expires {
		delete(db.data.keys, key)
		return nil
	}
	return v
}

// typed is find for a command on one type; right says whether v is of it.
func (db *DB) typed(key string, right func(v *value) bool) *value {
	v := db.find(key)
	if v != nil && !right(v) {
		db.err = ErrWrongType
		return nil
	}
	return v
}

func isHash(v *value) bool { return v.hash != nil }
func isZSet(v *value) bool { return v.zset != nil }
func isStr(v *value) bool  { return v.str != nil }

// Keys returns the names of all keys, sorted.
func (db *DB) Keys() []string {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(db.data.keys)) {
		if db.find(k) != nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// Del removes key and returns how many there were: 0 or 1.
func (db *DB) Del(key string) int {
	if db.find(key) == nil {
		return 0
	}
	delete(db.data.keys, key)
	return 1
}

// PExpire makes key end in ttl milliseconds, at once if ttl is not positive.
// It returns 0 when there is no such key, else 1.
func (db *DB) PExpire(key string, ttl int64) int {
	v := db.find(key)
	switch {
	case v == nil:
		return 0
	case ttl <= 0:
		delete(db.data.keys, key)
	default:
		v.expires = db.now + ttl
	}
	return 1
}

// PTTL returns the rest of key's TTL in ms: -1 if it has none, -2 if there is no such
// key.
func (db *DB) PTTL(key string) int64 {
	v := db.find(key)
	switch {
	case v == nil:
		return -2
	case v.expires == 0:
		return -1
	}
	return v.expires - db.now
}

// Exists returns 1 when there is such a key, else 0.
func (db *DB) Exists(key string) int {
	if db.find(key) == nil {
		return 0
	}
	return 1
}

// Set makes key a string without TTL. It replaces a value of any type.
func (db *DB) Set(key, val string) {
	if db.err == nil {
		db.data.keys[key] = &value{str: &val}
	}
}

// SetPX is SET with PX: a string that ends in ttl milliseconds.
func (db *DB) SetPX(key, val string, ttl int64) {
	db.Set(key, val)
	db.PExpire(key, ttl)
}

// Get returns the string at key, and whether there is one.
func (db *DB) Get(key string) (string, bool) {
	v := db.typed(key, isStr)
	if v == nil {
		return "", false
	}
	return *v.str, true
}

// HSet sets a field of the hash at key, which it makes if need be, and returns
// 1 when the field is new, else 0.
func (db *DB) HSet(key, field, val string) int {
	v := db.typed(key, isHash)
	if db.err != nil {
		return 0
	}
	if v == nil {
		v = &value{hash: &hash{vals: make(map[string]string)}}
		db.data.keys[key] = v
	}
	_, had := v.hash.vals[field]
	v.hash.vals[field] = val
	if had {
		return 0
	}
	v.hash.order = append(v.hash.order, field)
	return 1
}

// HGet returns a field of the hash at key, and whether there is one.
func (db *DB) HGet(key, field string) (string, bool) {
	v := db.typed(key, isHash)
	if v == nil {
		return "", false
	}
	val, ok := v.hash.vals[field]
	return val, ok
}

// HExists returns 1 when the hash at key has the field, else 0.
func (db *DB) HExists(key, field string) int {
	if _, ok := db.HGet(key, field); ok {
		return 1
	}
	return 0
}

// HDel removes a field, and the key with its last one, and returns how many
// fields there were: 0 or 1.
func (db *DB) HDel(key, field string) int {
	if db.HExists(key, field) == 0 {
		return 0
	}
	h := db.data.keys[key].hash
	delete(h.vals, field)
	i := slices.Index(h.order, field)
	h.order = slices.Delete(h.order, i, i+1)
	if len(h.order) == 0 {
		delete(db.data.keys, key)
	}
	return 1
}

// HKeys returns the fields of the hash at key, in the order in which they came.
func (db *DB) HKeys(key string) []string {
	v := db.typed(key, isHash)
	if v == nil {
		return nil
	}
	return slices.Clone(v.hash.order)
}

// HRandField returns the first n fields of the hash at key, where Redis returns any n: all if there are no more.
func (db *DB) HRandField(key string, n int) []string {
	fields := db.HKeys(key)
	return fields[:min(n, len(fields))]
}

// HLen is how many fields the hash at key has.
func (db *DB) HLen(key string) int {
	v := db.typed(key, isHash)
	if v == nil {
		return 0
	}
	return len(v.hash.order)
}

// HGetAll returns a copy of the hash at key; nil when there is none.
func (db *DB) HGetAll(key string) map[string]string {
	v := db.typed(key, isHash)
	if v == nil {
		return nil
	}
	return maps.Clone(v.hash.vals)
}

// ZAdd gives name its score in the sorted set at key, which it makes if need be,
// and returns 1 when the member is new, else 0.
func (db *DB) ZAdd(key string, score float64, name string) int {
	v := db.typed(key, isZSet)
	if db.err != nil {
		return 0
	}
	if v == nil {
		v = &value{}
		db.data.keys[key] = v
	}
	added := 1
	if i := v.zset.index(name); i >= 0 {
		v.zset = slices.Delete(v.zset, i, i+1)
		added = 0
	}
	m := member{score, name}
	i, _ := slices.BinarySearchFunc(v.zset, m, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name, b.name))
	})
	v.zset = slices.Insert(v.zset, i, m)
	return added
}

// ZRem removes a member, and the key with its last one, and returns how many
// there were: 0 or 1.
func (db *DB) ZRem(key, name string) int {
	i, ok := db.ZRank(key, name)
	if !ok {
		return 0
	}
	v := db.data.keys[key]
	v.zset = slices.Delete(v.zset, i, i+1)
	if len(v.zset) == 0 {
		delete(db.data.keys, key)
	}
	return 1
}

// ZRank is how many members of the sorted set at key are before name, and whether
// it is there.
func (db *DB) ZRank(key, name string) (int, bool) {
	v := db.typed(key, isZSet)
	if v == nil {
		return 0, false
	}
	i := v.zset.index(name)
	return max(i, 0), i >= 0
}

// ZScore is the score of a member, and whether it is there.
func (db *DB) ZScore(key, name string) (float64, bool) {
	i, ok := db.ZRank(key, name)
	if !ok {
		return 0, false
	}
	return db.data.keys[key].zset[i].score, true
}

// ZRange returns the first n members of the sorted set at key, all if n < 0.
func (db *DB) ZRange(key string, n int) []string {
	v := db.typed(key, isZSet)
	if v == nil {
		return nil
	}
	if n < 0 || n > len(v.zset) {
		n = len(v.zset)
	}
	names := make([]string, n)
	for i := range names {
		names[i] = v.zset[i].name
	}
	return names
}

// Subscribers is how many connections are subscribed to the channel.
func (db *DB) Subscribers(channel string) int {
	if db.err != nil {
		return 0
	}
	return db.hears(channel)
}

// Publish sends payload to the subscribers of channel and returns how many
// connections those are; see also [Master.Subscribe].
func (db *DB) Publish(channel, payload string) int {
	if db.err != nil {
		return 0
	}
	return db.publish(channel, payload)
}
