// SPDX-License-Identifier: Apache-2.0

package votesmodel

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Key is what a master keeps under a name.
type Key struct {
	Items []string // of a hash, field=value in alphabetical order; of a queue, member@ticket in its order; else the value
	TTL   time.Duration
}

// Keys are all keys of a master by name, without two fields of the record: latest, which is a time, and rests.
type Keys map[string]Key

// String lists the keys, one a line.
func (k Keys) String() string {
	var lines []string
	for name, key := range k {
		lines = append(lines, fmt.Sprintf("     %s (%v): %s\n", name, key.TTL.Round(time.Second), strings.Join(key.Items, "  ")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Keys are the keys that the master has.
func (m *Master) Keys() Keys {
	l := protocol.NewLock(m.lock, protocol.Plain)
	all := Keys{}
	record := []string{}
	if m.Counter > 0 {
		record = append(record, fmt.Sprintf("%s=%d", l.Counter, m.Counter))
	}
	if m.State != "" {
		record = append(record, "state="+m.State)
	}
	if len(record) > 0 {
		slices.Sort(record)
		all[protocol.RecordKey] = Key{Items: record}
	}
	if m.held() {
		items := []string{}
		for _, f := range m.fields {
			items = append(items, f+"=1")
		}
		if m.mode != "" {
			items = append(items, "mode="+m.mode)
		}
		slices.Sort(items)
		all[m.lock] = Key{items, m.until - m.now}
	}
	if m.rest.until > 0 {
		all[l.Rest] = Key{[]string{m.rest.epoch + " " + m.rest.holder}, m.rest.until - m.now}
	}
	for reader, until := range m.timeouts {
		all[TimeoutKey(m.lock, reader)] = Key{[]string{"1"}, until - m.now}
	}
	for client, s := range m.signs {
		all[SignOfLife(client)] = Key{[]string{s.text}, s.until - m.now}
	}
	if len(m.queue) > 0 {
		items := []string{}
		for _, p := range m.queue {
			items = append(items, fmt.Sprintf("%s@%d", p.member, p.ticket))
		}
		all[l.Queue] = Key{items, m.queueEnd - m.now}
	}
	return all
}

// TimeoutKey is the key that ends a reader's vote, and SignOfLife that of a client.
func TimeoutKey(lock, reader string) string { return "{" + lock + "}:" + reader + ":rwlock_timeout:1" }
func SignOfLife(client string) string       { return "redlock:alive:" + client }

// Client is the id of client i. Ids order as their numbers do.
func Client(i int) string { return fmt.Sprintf("00000000-0000-8000-8000-%012d", i+1) }
