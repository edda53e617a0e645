// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T) map[string]Scene {
	t.Helper()
	scenes, err := Load(os.DirFS("../testdata/wire"))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Scene{}
	for _, s := range scenes {
		byName[s.Name] = s
	}
	return byName
}

// scriptCall is a script call with what it did and what it answered.
type scriptCall struct {
	Event
	did   []string // its effects that write, words joined by spaces
	reply any
	after time.Duration // of the reply
}

func scriptCalls(s Scene) []*scriptCall {
	var calls []*scriptCall
	byIndex := map[int]*scriptCall{}
	open := map[int]*scriptCall{}
	for i, e := range s.Events {
		switch c := open[e.Node]; {
		case e.Kind == Script:
			c := &scriptCall{Event: e}
			calls, byIndex[i], open[e.Node] = append(calls, c), c, c
		case e.Kind == Reply && c != nil && c.Conn == e.Conn:
			c.reply, c.after = e.Reply, e.At
			delete(open, e.Node)
		}
	}
	for _, e := range Effects(s) {
		if c := byIndex[e.Call]; c != nil {
			c.did = append(c.did, strings.Join(e.Args, " "))
		}
	}
	return calls
}

func TestLoad_allRecordings_eachSceneOfTheReadmeAndNoOther(t *testing.T) {
	readme, err := os.ReadFile("../testdata/wire/README.md")
	if err != nil {
		t.Fatal(err)
	}
	scenes := load(t)
	if len(scenes) != 23 {
		t.Errorf("%d scenes, want 23", len(scenes))
	}
	for name := range scenes {
		if !strings.Contains(string(readme), name) {
			t.Errorf("README.md does not tell of %s", name)
		}
	}
}

func TestParse_badLine_refused(t *testing.T) {
	call := `{"ms": 0.0, "node": 1, "conn": 2, "script": "lock.acquire", "keys": ["L"], "args": ["1", "u:1"]}` + "\n"
	reply := `{"ms": 0.0, "node": 1, "conn": 2, "reply": null}`
	if _, err := Parse("good", []byte(call+reply)); err != nil {
		t.Fatalf("the good scene the bad ones are made from: %v", err)
	}
	for name, data := range map[string]string{
		"no JSON":                    `x`,
		"unknown field":              `{"ms": 0.0, "node": 1, "conn": 2, "reply": null, "x": 1}`,
		"no kind":                    `{"ms": 0.0, "node": 1, "conn": 2}`,
		"two kinds":                  `{"ms": 0.0, "node": 1, "conn": 2, "request": ["DEL", "x"], "reply": 1}`,
		"no node":                    `{"ms": 0.0, "conn": 2, "reply": 1}`,
		"no connection":              `{"ms": 0.0, "node": 1, "reply": 1}`,
		"time before the start":      `{"ms": -1.0, "node": 1, "conn": 2, "reply": 1}`,
		"command nobody classified":  `{"ms": 0.0, "node": 1, "conn": 2, "request": ["FLUSHALL"]}`,
		"reply of an unknown form":   `{"ms": 0.0, "node": 1, "conn": 2, "reply": {"error": "x"}}`,
		"fraction in a reply":        `{"ms": 0.0, "node": 1, "conn": 2, "reply": [1.5]}`,
		"effect of no script":        `{"ms": 0.0, "node": 1, "effect": ["del", "x"]}`,
		"effect after the reply":     call + reply + "\n" + `{"ms": 0.0, "node": 1, "effect": ["del", "x"]}`,
		"effect on another node":     call + `{"ms": 0.0, "node": 2, "effect": ["del", "x"]}` + "\n" + reply,
		"two script calls at a time": call + call + reply,
		"script call without reply":  call,
	} {
		if scene, err := Parse("bad", []byte(data)); err == nil {
			t.Errorf("%s: parsed to %+v", name, scene)
		}
	}
}

// The fields of one event of each kind, as the README tells them.
func TestParse_lockUnlock_fieldsAsWritten(t *testing.T) {
	events := load(t)["lock-unlock"].Events
	first, last := events[0], events[len(events)-1]
	if first.Kind != Script || first.Role != "lock.acquire" || !slices.Equal(first.Keys, []string{"L1"}) ||
		len(first.Args) != 2 || first.Args[0] != "3000" || first.Node != 1 || first.Conn != 2 || first.At != 0 {
		t.Errorf("first event: %+v", first)
	}
	if e := events[1]; e.Kind != Command || !slices.Equal(e.Args, []string{"exists", "L1"}) || e.At%(100*time.Microsecond) != 0 {
		t.Errorf("second event: %+v", e)
	}
	if e := events[4]; e.Kind != Reply || e.Reply != nil {
		t.Errorf("reply to the acquire: %+v", e)
	}
	if last.Kind != Reply || last.Reply != int64(1) || last.At <= first.At {
		t.Errorf("last event: %+v", last)
	}
}

// What each script did, over all scenes. This is the wire format our own scripts must keep to.
func TestScenes_scriptCalls_keysFieldsAndMessages(t *testing.T) {
	seen := map[string]int{}
	for name, scene := range load(t) {
		for _, c := range scriptCalls(scene) {
			rule := rules[c.Role]
			if rule == nil {
				t.Errorf("%s: no rule for %s", name, c.Role)
				continue
			}
			answer := fmt.Sprint(c.reply)
			if n, ok := c.reply.(int64); ok && n > 1 {
				answer = "wait"
			}
			seen[c.Role+" "+answer]++
			if err := rule(c, answer); err != nil {
				t.Errorf("%s at %v: %s %v %v -> %v: %v\n%s", name, c.At, c.Role, c.Keys, c.Args, c.reply, err, strings.Join(c.did, "\n"))
			}
		}
	}
	for _, want := range []string{
		"lock.acquire <nil>", "lock.acquire wait", "lock.release 1", "lock.release 0", "lock.release <nil>",
		"read.acquire wait", "write.acquire wait", "read.release 0", "write.release 0", "fair.acquire wait",
	} {
		if seen[want] == 0 {
			t.Errorf("no scene shows %q; seen: %v", want, seen)
		}
	}
}

var (
	plainOwner = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`)
	latchKey   = regexp.MustCompile(`^redisson_unlock_latch:\{(\w+)\}:[0-9a-f]{32}$`)
)

// did compares what a call did with what it should have done.
func did(c *scriptCall, want ...string) error {
	if !slices.Equal(c.did, want) {
		return fmt.Errorf("want:\n%s\ngot:", strings.Join(want, "\n"))
	}
	return nil
}

func owner(s string) error {
	if !plainOwner.MatchString(s) {
		return fmt.Errorf("%q is no <uuid>:<thread>", s)
	}
	return nil
}

// latch is the command by which an unlock leaves its answer for a resend of itself.
func latch(c *scriptCall, key, ttl string) string {
	if m := latchKey.FindStringSubmatch(key); m == nil || m[1] != c.Keys[0] {
		return "a latch key for " + c.Keys[0] + ", not " + key
	}
	return fmt.Sprintf("set %s %v px %s", key, c.reply, ttl)
}

func refused(c *scriptCall, answer string) error {
	if answer != "wait" {
		return fmt.Errorf("want nil or a remaining TTL")
	}
	return did(c)
}

// rules hold what a call of each role does, given its keys, arguments and answer ("wait" for a TTL).
var rules = map[string]func(c *scriptCall, answer string) error{
	"lock.acquire": func(c *scriptCall, answer string) error {
		name, lease, who := c.Keys[0], c.Args[0], c.Args[1]
		if err := owner(who); err != nil || answer != "<nil>" {
			return cmp.Or(err, refused(c, answer))
		}
		return did(c, "hincrby "+name+" "+who+" 1", "pexpire "+name+" "+lease)
	},
	"fenced.acquire": func(c *scriptCall, answer string) error {
		name, token, lease, who := c.Keys[0], c.Keys[1], c.Args[0], c.Args[1]
		if token != "redisson_lock_token:{"+name+"}" || !regexp.MustCompile(`^\[-1 \d+\]$`).MatchString(answer) {
			return fmt.Errorf("token key or answer")
		}
		return did(c, "incr "+token, "hincrby "+name+" "+who+" 1", "pexpire "+name+" "+lease)
	},
	"lock.release": func(c *scriptCall, answer string) error {
		name, channel, lease, who := c.Keys[0], c.Keys[1], c.Args[1], c.Args[2]
		if channel != "redisson_lock__channel:{"+name+"}" || c.Args[0] != "0" || c.Args[3] != "PUBLISH" {
			return fmt.Errorf("channel or message")
		}
		minus, answered := "hincrby "+name+" "+who+" -1", latch(c, c.Keys[2], c.Args[4])
		switch answer {
		case "1":
			return did(c, minus, "del "+name, "PUBLISH "+channel+" 0", answered)
		case "0":
			return did(c, minus, "pexpire "+name+" "+lease, answered)
		default: // nil: not the owner
			return did(c)
		}
	},
	"lock.force-release": func(c *scriptCall, answer string) error {
		return did(c, "del "+c.Keys[0], "PUBLISH redisson_lock__channel:{"+c.Keys[0]+"} 0")
	},
	"lock.renew": func(c *scriptCall, answer string) error {
		if answer != "[1]" {
			return fmt.Errorf("a lock was lost")
		}
		return did(c, "pexpire "+c.Keys[0]+" "+c.Args[0])
	},
	// The end of a multi or red acquire with a lease: nothing looks at who holds the key.
	"key.pexpire": func(c *scriptCall, answer string) error {
		return did(c, "pexpire "+c.Keys[0]+" "+c.Args[0])
	},
	"read.acquire": func(c *scriptCall, answer string) error {
		name, timeouts, lease, who := c.Keys[0], c.Keys[1], c.Args[0], c.Args[1]
		if timeouts != "{"+name+"}:"+who+":rwlock_timeout" || c.Args[2] != who+":write" {
			return fmt.Errorf("timeout key or write field")
		}
		if answer != "<nil>" {
			return refused(c, answer)
		}
		took := []string{"hset " + name + " mode read", "hset " + name + " " + who + " 1"}
		if !slices.Contains(c.did, took[0]) {
			took = []string{"hincrby " + name + " " + who + " 1"} // beside other readers, or below one's own write lock
		}
		hold := timeouts + ":" + strings.TrimPrefix(strings.Fields(c.did[len(took)])[1], timeouts+":")
		ttl := strings.Fields(c.did[len(c.did)-1])[2]
		if number(ttl) < number(lease) { // never below what other readers have left
			return fmt.Errorf("TTL %s below the lease", ttl)
		}
		return did(c, append(took, "set "+hold+" 1", "pexpire "+hold+" "+lease, "pexpire "+name+" "+ttl)...)
	},
	"read.release": func(c *scriptCall, answer string) error {
		name, channel, who := c.Keys[0], c.Keys[1], c.Args[1]
		if channel != "redisson_rwlock:{"+name+"}" || c.Args[0] != "0" || c.Keys[3] != "{"+name+"}" {
			return fmt.Errorf("channel, message or key prefix")
		}
		want := []string{"hincrby " + name + " " + who + " -1"}
		if gone := "hdel " + name + " " + who; slices.Contains(c.did, gone) {
			want = append(want, gone)
		}
		want = append(want, c.did[len(want)]) // one hold's timeout key, checked here:
		if !strings.HasPrefix(want[len(want)-1], "del "+c.Keys[2]+":") {
			return fmt.Errorf("no timeout key deleted")
		}
		answered := latch(c, c.Keys[4], c.Args[3])
		if answer == "1" {
			return did(c, append(want, "del "+name, "PUBLISH "+channel+" 0", answered)...)
		}
		ttl := strings.Fields(c.did[len(c.did)-2]) // other readers: the longest of their timeouts
		return did(c, append(want, "pexpire "+name+" "+ttl[2], answered)...)
	},
	"read.renew": func(c *scriptCall, answer string) error {
		name, prefix, ttl, who := c.Keys[0], c.Keys[1], c.Args[0], c.Args[2]
		return did(c, "pexpire "+prefix+":"+who+":rwlock_timeout:1 "+ttl, "pexpire "+name+" "+ttl)
	},
	"write.acquire": func(c *scriptCall, answer string) error {
		name, lease, who := c.Keys[0], c.Args[0], c.Args[1]
		if err := owner(strings.TrimSuffix(who, ":write")); err != nil || !strings.HasSuffix(who, ":write") {
			return fmt.Errorf("owner %q", who)
		}
		switch {
		case answer != "<nil>":
			return refused(c, answer)
		case len(c.did) == 2: // again: the lease is added to what is left of the last
			if ttl := number(strings.Fields(c.did[1])[2]); ttl <= number(lease) || ttl > 2*number(lease) {
				return fmt.Errorf("TTL is not the sum of two leases")
			}
			return did(c, "hincrby "+name+" "+who+" 1", c.did[1])
		default:
			return did(c, "hset "+name+" mode write", "hset "+name+" "+who+" 1", "pexpire "+name+" "+lease)
		}
	},
	"write.release": func(c *scriptCall, answer string) error {
		name, channel, lease, who := c.Keys[0], c.Keys[1], c.Args[1], c.Args[2]
		if channel != "redisson_rwlock:{"+name+"}" || c.Args[0] != "1" || c.Args[3] != "PUBLISH" {
			return fmt.Errorf("channel or message")
		}
		minus, answered := "hincrby "+name+" "+who+" -1", latch(c, c.Keys[2], c.Args[4])
		gone := "hdel " + name + " " + who
		switch downgrade := "hset " + name + " mode read"; {
		case answer == "0":
			return did(c, minus, "pexpire "+name+" "+lease, answered)
		case slices.Contains(c.did, downgrade): // and nobody is told, though readers could come in now
			return did(c, minus, gone, downgrade, answered)
		default:
			return did(c, minus, gone, "del "+name, "PUBLISH "+channel+" 1", answered)
		}
	},
	"fair.acquire": func(c *scriptCall, answer string) error {
		name, queue, timeouts, lease, who := c.Keys[0], c.Keys[1], c.Keys[2], c.Args[0], c.Args[1]
		if queue != "redisson_lock_queue:{"+name+"}" || timeouts != "redisson_lock_timeout:{"+name+"}" {
			return fmt.Errorf("queue or timeout key")
		}
		if answer == "wait" {
			if len(c.did) == 0 {
				return nil // queued before
			}
			return did(c, "zadd "+timeouts+" "+strings.Fields(c.did[0])[2]+" "+who, "rpush "+queue+" "+who)
		}
		want := []string{"lpop " + queue, "zrem " + timeouts + " " + who}
		for _, cmd := range c.did[2:] { // all who wait on come forward by one wait
			if strings.HasPrefix(cmd, "zincrby "+timeouts+" -300000 ") {
				want = append(want, cmd)
			}
		}
		return did(c, append(want, "hset "+name+" "+who+" 1", "pexpire "+name+" "+lease)...)
	},
	"fair.release": func(c *scriptCall, answer string) error {
		name, channel, who := c.Keys[0], c.Keys[3], c.Args[2]
		want := []string{"hincrby " + name + " " + who + " -1", "del " + name, latch(c, c.Keys[4], c.Args[5])}
		if len(c.did) > len(want) { // only the head of the queue is told, on a channel of its own
			next := strings.TrimSuffix(strings.TrimPrefix(c.did[3], "PUBLISH "+channel+":"), " 0")
			if err := owner(next); err != nil || channel != "redisson_lock__channel:{"+name+"}" {
				return fmt.Errorf("told %s", c.did[3])
			}
			want = append(want, "PUBLISH "+channel+":"+next+" 0")
		}
		return did(c, want...)
	},
}

// number is -1 where s is none, which fails every comparison above.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}
