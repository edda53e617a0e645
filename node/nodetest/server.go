// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/node/nodetest/internal/resp"
)

// Command is one command on its way to a master.
type Command struct {
	// Name in lower case: "info", "client kill"... The name of a script's call is that
	// of its file in node/lua, "extend", "topup"..., which the script's first line
	// tells. A call of votes.lua is "acquire" if an op of it may be granted, else
	// "release". "dial" is an attempt to connect. "message" is a message that the
	// master pushes to a subscriber; Args are its channel and payload.
	Name string
	Keys []string // of a script
	Args []string // a script's ARGV; the words after the name of any other command
}

// executeLocked runs one command that came in on c.
func (m *Master) executeLocked(c *conn, words []string) any {
	s, keys, argv, err := m.scripts.Called(words)
	switch {
	case err != nil:
		return err
	case s != nil:
		return s.Run(m.dbLocked().callOfScript, keys, argv)
	}
	cmd, last := plain(words), words[len(words)-1]
	switch cmd.Name {
	case "script load":
		return m.scripts.Load(last, m.edit)
	case "hello":
		return map[string]string{"server": "redis", "version": strings.TrimPrefix(m.id.Version, "redis "), "proto": "2"}
	case "info":
		return m.infoLocked()
	case "client id":
		return c.id
	case "client kill": // ID id
		return m.killLocked(c, last)
	case "client setname":
		return resp.Status("OK")
	case "ping":
		if len(c.channels) > 0 {
			return []string{"pong", ""}
		}
		return resp.Status("PONG")
	case "subscribe", "unsubscribe":
		return c.subscribeLocked(cmd)
	}
	return m.dbLocked().call(cmd.Name, cmd.Args)
}

// infoLocked answers INFO. Every section has the fields of all sections that a node reads.
func (m *Master) infoLocked() string {
	second := "0000"
	if m.id.ReplID != "" {
		second = "1"
	}
	program, version, _ := strings.Cut(m.id.Version, " ")
	return fmt.Sprintf("run_id:%s\r\nserver_name:%s\r\n%s_version:%s\r\nrole:%s\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\nmaxmemory_policy:%s\r\nevicted_keys:%d\r\n",
		m.id.RunID, program, program, version, m.id.Role, m.id.ReplID, second, m.id.Eviction, m.id.Evicted)
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

// commandOf returns words as a hook gets them.
func (m *Master) commandOf(words []string) Command {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, keys, argv, _ := m.scripts.Called(words); s != nil {
		if act := s.Act(argv); act != "" {
			return Command{act, keys, argv}
		}
	}
	return plain(words)
}

// plain returns words, which call no script, as a Command.
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
