// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Command is one command on its way to a master.
type Command struct {
	// Name in lower case: "info", "client kill"... A script's call has the name of
	// its file in node/lua, "extend", "topup"..., but one of votes.lua is "acquire"
	// when there is an acquire in it and else "release". "dial" is the attempt to
	// connect, which comes before any command, and "message" no command but one
	// that the master pushes to a subscriber: Args are channel and payload.
	Name string
	Keys []string // of a script
	Args []string // a script's ARGV; the words after the name of any other command
}

var (
	errNoScript = errors.New("NOSCRIPT No matching script")
	errNoPort   = errors.New("ERR nodetest has no Go version of this script")
)

// executeLocked runs one command that came in on c.
func (m *Master) executeLocked(c *conn, words []string) any {
	if s, keys, argv, ok := m.scriptLocked(words); ok {
		if s.run == nil {
			return errNoPort
		}
		db := m.dbLocked()
		reply := s.run(db, keys, argv)
		if db.err != nil {
			return db.err
		}
		return reply
	}
	cmd, last := plain(words), words[len(words)-1]
	switch cmd.Name {
	case "evalsha":
		return errNoScript
	case "script load":
		return m.loadLocked(last)
	case "hello":
		return map[string]string{"server": "redis", "version": strings.TrimPrefix(m.id.Version, "redis "), "proto": "2"}
	case "info":
		return m.infoLocked()
	case "client id":
		return c.id
	case "client kill": // ID id
		return m.killLocked(c, last)
	case "client setname":
		return status("OK")
	case "ping":
		if len(c.channels) > 0 {
			return []string{"pong", ""}
		}
		return status("PONG")
	case "subscribe", "unsubscribe":
		return c.subscribeLocked(cmd)
	case "publish":
		return m.publishLocked(cmd.Args[0], last)
	}
	db := m.dbLocked()
	reply, ok := dataCommand(db, cmd)
	switch {
	case !ok:
		return fmt.Errorf("ERR unknown command '%s'", words[0])
	case db.err != nil:
		return db.err
	}
	return reply
}

// dataCommand runs a command on the data that is no script.
func dataCommand(db *DB, cmd Command) (reply any, ok bool) {
	args := cmd.Args
	switch {
	case cmd.Name == "time":
		us := db.Time()
		return []string{strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10)}, true
	case cmd.Name == "hgetall" && len(args) == 1:
		all := []string{} // in order: a map would have to be sorted
		for _, field := range db.HKeys(args[0]) {
			val, _ := db.HGet(args[0], field)
			all = append(all, field, val)
		}
		return all, true
	case cmd.Name == "hmget" && len(args) > 1:
		vals := make([]any, len(args)-1)
		for i, field := range args[1:] {
			if val, ok := db.HGet(args[0], field); ok {
				vals[i] = val
			}
		}
		return vals, true
	case cmd.Name == "hget" && len(args) == 2:
		if val, ok := db.HGet(args[0], args[1]); ok {
			return val, true
		}
		return nil, true
	case cmd.Name == "set" && len(args) == 4 && strings.EqualFold(args[2], "px"):
		db.SetPX(args[0], args[1], number(args[3]))
		return status("OK"), true
	}
	return nil, false
}

// infoLocked answers INFO, with all the fields that are asked of any section.
func (m *Master) infoLocked() string {
	second := "0000"
	if m.id.ReplID != "" {
		second = "1"
	}
	program, version, _ := strings.Cut(m.id.Version, " ")
	return fmt.Sprintf("run_id:%s\r\nserver_name:%s\r\n%s_version:%s\r\nrole:%s\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\nmaxmemory_policy:%s\r\n",
		m.id.RunID, program, program, version, m.id.Role, m.id.ReplID, second, m.id.Eviction)
}

func (m *Master) killLocked(by *conn, id string) int {
	for _, c := range m.conns {
		if c != by && strconv.FormatInt(c.id, 10) == id {
			c.hangUpLocked()
			return 1
		}
	}
	return 0
}

// loadLocked remembers a script, for ever: a node loads its scripts on each new
// connection, so what a restart forgets is never missed. To see how it copes,
// refuse a call with NOSCRIPT.
func (m *Master) loadLocked(text string) string {
	sum := sha1.Sum([]byte(text))
	sha := hex.EncodeToString(sum[:])
	m.scripts[sha] = scriptOf(text)
	return sha
}

// scriptLocked is the script that words call, if it is known.
func (m *Master) scriptLocked(words []string) (s script, keys, argv []string, ok bool) {
	if len(words) < 3 {
		return
	}
	switch strings.ToLower(words[0]) {
	case "eval":
		s, ok = scriptOf(words[1]), true
	case "evalsha":
		s, ok = m.scripts[words[1]]
	}
	n, err := strconv.Atoi(words[2])
	if !ok || err != nil || n < 0 || n > len(words)-3 {
		return script{}, nil, nil, false
	}
	return s, words[3 : 3+n], words[3+n:], true
}

// commandOf is what a hook is told of words.
func (m *Master) commandOf(words []string) Command {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, keys, argv, ok := m.scriptLocked(words); ok && s.run != nil {
		if s.name == "votes" {
			s.name = "release"
			if argv[0] != "0" {
				s.name = "acquire"
			}
		}
		return Command{s.name, keys, argv}
	}
	return plain(words)
}

// plain is a command that is no call of a script.
func plain(words []string) Command {
	cmd := Command{Name: strings.ToLower(words[0]), Args: words[1:]}
	switch cmd.Name {
	case "client", "config", "script":
		if len(cmd.Args) > 0 {
			cmd.Name, cmd.Args = cmd.Name+" "+strings.ToLower(cmd.Args[0]), cmd.Args[1:]
		}
	}
	return cmd
}
