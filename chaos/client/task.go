// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Env is the variable that the harness sets to 1 in the environment of a client. A program that is also something else finds out by it.
const Env = "REDLOCK_CHAOS_CLIENT"

// The lines of the protocol. The harness sends the Task, and then StormLine any number of times; the end of the input ends the client. The
// client sends ReadyLine, and then "+name" when it is granted a lock and "-name" when it releases it.
const (
	ReadyLine = "ready"
	StormLine = "storm"
)

// Task says what a client does. The harness sends it as one line of JSON. The names of its fields are those that older builds of this program
// read, which rolling-upgrade starts.
type Task struct {
	Name     string         `json:"name"`               // of the client in the history: c1, c2, ...
	Seed     uint64         `json:"seed"`               // of its choices
	Nodes    []string       `json:"nodes"`              // URLs of the masters, as redlock.Open takes them
	Locks    []string       `json:"locks"`              // names of the locks to take; the first is wanted by many
	Library  string         `json:"library,omitempty"`  // what --lock names: the library to use, if the client knows several
	Register string         `json:"register,omitempty"` // "host:port" of a Redis without faults, for values that locks guard
	TTL      time.Duration  `json:"ttl"`                // of every lock, in nanoseconds
	MaxTTL   time.Duration  `json:"maxTTL"`             // of the list of masters (redlock.WithMaxTTL), in nanoseconds
	Think    time.Duration  `json:"think"`              // the mean time between two locks of a thread, in nanoseconds
	History  string         `json:"history"`            // file to write
	Header   history.Header `json:"header"`             // the first line of that file
}

// Check returns an error if the task is not complete.
func (t *Task) Check() error {
	switch {
	case t.Name == "" || t.History == "" || len(t.Nodes) == 0:
		return errors.New("client: name, history and nodes must be given")
	case t.TTL <= 0 || t.MaxTTL < t.TTL || t.Think <= 0:
		return fmt.Errorf("client: TTL %v, MaxTTL %v and Think %v must be positive, and TTL no longer than MaxTTL", t.TTL, t.MaxTTL, t.Think)
	}
	return nil
}

// parse reads a task.
func parse(line []byte) (Task, error) {
	var t Task
	if err := json.Unmarshal(line, &t); err != nil {
		return t, fmt.Errorf("client: task: %w", err)
	}
	return t, t.Check()
}
