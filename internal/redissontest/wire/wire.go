// SPDX-License-Identifier: Apache-2.0

// Package wire reads recorded traffic between Redisson 4.7.0 and its masters, to hold our keys, fields and messages
// against what a Java client really sends.
//
// A recording is one file of JSON lines a scene; its README tells the fields and the scenes. The package guarantees
// that a scene it returns was understood to the last line: every event is of one kind, every command is known to write
// or not to, every effect belongs to a script call, and no two script calls overlapped on a master. The recordings are
// of one run: names, owner ids and times in them are that run's.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"
	"time"
)

// Scene is one recorded story, such as "redlock-held".
type Scene struct {
	Name   string
	Events []Event // in the order of the recording; At may step back by less than a millisecond
}

// Kind says what an Event is, and so which of its fields are in use.
type Kind string

// The kinds of event.
const (
	Script  Kind = "script"  // a client calls a script: Role, Keys, Args
	Request Kind = "request" // a client sends a plain command: Args
	Command Kind = "effect"  // the master executes a command of a script: Args; Conn is 0
	Reply   Kind = "reply"   // the master answers, or delivers a message: Reply
)

// Event is one line of a recording.
type Event struct {
	Kind Kind
	At   time.Duration // since the scene's first event, in steps of 0.1 ms
	Node int           // the master, from 1
	Conn int           // the connection; one client may use several
	Role string        // such as "lock.acquire"
	Keys []string
	Args []string
	// nil, int64, string or []any of these. A pub/sub message is [message channel payload].
	Reply any
}

// Effect is a command that changed a master or told its subscribers something.
type Effect struct {
	Node int
	Args []string      // the whole command, as recorded
	At   time.Duration // since the scene's first event
	// Index in Scene.Events of the script call or request it was part of. Effects of one call took place at once, so a
	// replay that does not want to show states no Java client leaves (a hash without a TTL) runs them as a transaction.
	Call int
}

// Effects returns what the scene's clients did to the masters, in order: the writes and publishes of their scripts, and
// plain requests that write. Played against empty masters they leave what the clients left. Reads are left out. A value
// that a script took from the clock is the recording's: a PEXPIRE from a remaining TTL, a score in a fair lock's queue.
func Effects(s Scene) []Effect {
	var effects []Effect
	call := map[int]int{} // of each node, the script call last begun
	for i, e := range s.Events {
		switch e.Kind {
		case Script:
			call[e.Node] = i
		case Request:
			if writes[command(e)] {
				effects = append(effects, Effect{Node: e.Node, Args: e.Args, At: e.At, Call: i})
			}
		case Command:
			if writes[command(e)] {
				effects = append(effects, Effect{Node: e.Node, Args: e.Args, At: e.At, Call: call[e.Node]})
			}
		}
	}
	return effects
}

// writes tells the recorded commands that change a master or are seen by its subscribers from those that do not.
var writes = map[string]bool{
	"del": true, "hdel": true, "hincrby": true, "hset": true, "incr": true, "lpop": true, "pexpire": true,
	"publish": true, "rpush": true, "set": true, "zadd": true, "zincrby": true, "zrem": true,

	"exists": false, "get": false, "hexists": false, "hget": false, "hkeys": false, "hlen": false, "lindex": false,
	"pttl": false, "subscribe": false, "unsubscribe": false, "zrange": false, "zscore": false,
}

func command(e Event) string { return strings.ToLower(e.Args[0]) }

// Load reads every *.jsonl file at the root of fsys, by name. A file it does not understand is an error.
func Load(fsys fs.FS) ([]Scene, error) {
	names, err := fs.Glob(fsys, "*.jsonl")
	if err != nil {
		return nil, err
	}
	var scenes []Scene
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		scene, err := Parse(strings.TrimSuffix(path.Base(name), ".jsonl"), data)
		if err != nil {
			return nil, err
		}
		scenes = append(scenes, scene)
	}
	return scenes, nil
}

// Parse reads one scene. The error names the line.
func Parse(name string, data []byte) (Scene, error) {
	scene := Scene{Name: name}
	open := map[int]int{} // of each node, the connection of the script call that is not answered yet
	for i, text := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		e, err := parseLine(text)
		if err == nil {
			err = follow(open, e)
		}
		if err != nil {
			return Scene{}, fmt.Errorf("wire: %s, line %d: %w", name, i+1, err)
		}
		scene.Events = append(scene.Events, e)
	}
	for node := range open {
		return Scene{}, fmt.Errorf("wire: %s: a script call on node %d has no reply", name, node)
	}
	return scene, nil
}

// follow keeps the rule Effects rests on: an effect is the work of the one script call that its node has open.
func follow(open map[int]int, e Event) error {
	conn, busy := open[e.Node]
	switch {
	case e.Kind == Script && busy:
		return fmt.Errorf("script call on node %d before the last was answered", e.Node)
	case e.Kind == Script:
		open[e.Node] = e.Conn
	case e.Kind == Command && !busy:
		return fmt.Errorf("effect on node %d without a script call", e.Node)
	case e.Kind == Reply && busy && conn == e.Conn:
		delete(open, e.Node)
	}
	return nil
}

// line is an event as it is written down.
type line struct {
	MS      float64         `json:"ms"`
	Node    int             `json:"node"`
	Conn    int             `json:"conn"`
	Script  string          `json:"script"`
	Keys    []string        `json:"keys"`
	Args    []string        `json:"args"`
	Request []string        `json:"request"`
	Effect  []string        `json:"effect"`
	Reply   json.RawMessage `json:"reply"` // "null" where the reply is nil, empty where there is none
}

func parseLine(text []byte) (Event, error) {
	var l line
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Event{}, err
	}
	e := Event{At: time.Duration(math.Round(l.MS*1000)) * time.Microsecond, Node: l.Node, Conn: l.Conn}
	kinds := 0
	if l.Script != "" {
		kinds++
		e.Kind, e.Role, e.Keys, e.Args = Script, l.Script, l.Keys, l.Args
	}
	if len(l.Request) > 0 {
		kinds++
		e.Kind, e.Args = Request, l.Request
	}
	if len(l.Effect) > 0 {
		kinds++
		e.Kind, e.Args = Command, l.Effect
	}
	if len(l.Reply) > 0 {
		kinds++
		e.Kind = Reply
	}
	if kinds != 1 {
		return Event{}, fmt.Errorf("it is %d kinds of event, want one", kinds)
	}
	return e.complete(l)
}

// complete checks what the kind demands and fills in the reply.
func (e Event) complete(l line) (_ Event, err error) {
	if e.Node < 1 || (e.Conn < 1) != (e.Kind == Command) || e.At < 0 {
		return Event{}, fmt.Errorf("node %d, connection %d or time %v is missing or wrong", e.Node, e.Conn, e.At)
	}
	switch e.Kind {
	case Request, Command:
		if _, known := writes[command(e)]; !known {
			return Event{}, fmt.Errorf("does %q write?", e.Args[0])
		}
	case Reply:
		e.Reply, err = parseReply(l.Reply)
	}
	return e, err
}

func parseReply(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return plain(v)
}

// plain turns JSON numbers into int64 and refuses what no recording holds so far: errors, statuses, maps.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case nil, string:
		return v, nil
	case json.Number:
		return v.Int64()
	case []any:
		for i := range v {
			item, err := plain(v[i])
			if err != nil {
				return nil, err
			}
			v[i] = item
		}
		return v, nil
	default:
		return nil, fmt.Errorf("reply of type %T", v)
	}
}
