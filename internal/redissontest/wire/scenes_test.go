// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// story is what a scene's events are about, one word or two each, so that a test can say their order.
func story(s Scene) []string {
	var told []string
	calls := scriptCalls(s)
	for _, e := range s.Events {
		switch {
		case e.Kind == Script:
			answer := "granted"
			if calls[0].reply != nil {
				answer = fmt.Sprint(calls[0].reply)
			}
			if strings.HasSuffix(e.Role, ".acquire") && answer != "granted" {
				answer = "refused"
			}
			calls = calls[1:]
			told = append(told, e.Role+" "+answer)
		case e.Kind == Request && strings.HasSuffix(e.Args[0], "SUBSCRIBE"):
			told = append(told, e.Args[0])
		case e.Kind == Reply && payload(e) != "":
			told = append(told, "message "+payload(e))
		}
	}
	return told
}

// payload is what a pub/sub message says, empty where the reply is none.
func payload(e Event) string {
	if items, ok := e.Reply.([]any); ok && len(items) == 3 && items[0] == "message" {
		return items[2].(string)
	}
	return ""
}

// A waiter subscribes after its first refusal and tries again before it sleeps; the message wakes it.
func TestScenes_waiters_subscribeTryAgainSleepWake(t *testing.T) {
	scenes := load(t)
	for name, want := range map[string][]string{
		"wait-woken-by-release": {"lock.acquire granted", "lock.acquire refused", "SUBSCRIBE", "lock.acquire refused",
			"lock.release 1", "message 0", "lock.acquire granted", "UNSUBSCRIBE", "lock.release 1"},
		"wait-until-expiry": {"lock.acquire granted", "lock.acquire refused", "SUBSCRIBE", "lock.acquire refused",
			"lock.acquire granted", "lock.release 1", "UNSUBSCRIBE", "message 0"}, // its own release's message
		"trylock-wait-timeout": {"lock.acquire granted", "lock.acquire refused", "SUBSCRIBE", "lock.acquire refused",
			"UNSUBSCRIBE", "lock.release 1"},
		"trylock-held": {"lock.acquire granted", "lock.acquire refused", "lock.release 1"},
		"read-blocks-write": {"read.acquire granted", "write.acquire refused", "SUBSCRIBE", "write.acquire refused",
			"read.release 1", "message 0", "write.acquire granted", "UNSUBSCRIBE", "write.release 1"},
		"write-blocks-read": {"write.acquire granted", "read.acquire refused", "SUBSCRIBE", "read.acquire refused",
			"write.release 1", "message 1", "read.acquire granted", "UNSUBSCRIBE", "read.release 1"},
		"fair-two-waiters": {"fair.acquire granted",
			"fair.acquire refused", "SUBSCRIBE", "fair.acquire refused",
			"fair.acquire refused", "SUBSCRIBE", "fair.acquire refused",
			"fair.release 1", "message 0", "fair.acquire granted", "UNSUBSCRIBE",
			"fair.release 1", "message 0", "fair.acquire granted",
			"fair.release 1", "UNSUBSCRIBE"},
	} {
		if got := story(scenes[name]); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, want)
		}
	}
}

// Push and timer, as the recording measured them: 10 ms is generous for the first, the lease was 500 ms for the second.
func TestScenes_waiters_wokenByMessageOrAtTheLeasesEnd(t *testing.T) {
	scenes := load(t)
	woken := scriptCalls(scenes["wait-woken-by-release"])
	if late := woken[4].after - woken[3].At; woken[4].reply != nil || late > 10*time.Millisecond {
		t.Errorf("lock taken %v after the release was sent", late)
	}
	expired := scriptCalls(scenes["wait-until-expiry"])
	if late := expired[3].At - expired[0].after; expired[3].reply != nil || late < 500*time.Millisecond || late > 510*time.Millisecond {
		t.Errorf("tried again %v after a lock of 500 ms was granted", late)
	}
}

// Invariant of all scenes: who hears a message had subscribed to its channel, and it says 0 or 1.
func TestScenes_messages_zeroOrOneToASubscribedChannel(t *testing.T) {
	heard := 0
	for name, scene := range load(t) {
		subscribed := map[string]bool{} // by node, connection and channel
		for _, e := range scene.Events {
			at := func(channel any) string { return fmt.Sprint(e.Node, e.Conn, channel) }
			if e.Kind == Request && e.Args[0] == "SUBSCRIBE" {
				subscribed[at(e.Args[1])] = true
			}
			if say := payload(e); say != "" {
				heard++
				if channel := e.Reply.([]any)[1]; !subscribed[at(channel)] || say != "0" && say != "1" {
					t.Errorf("%s at %v: %v", name, e.At, e.Reply)
				}
			}
		}
	}
	if heard == 0 {
		t.Error("no message in any scene")
	}
}

// Every call that releases leaves a latch key, which its caller deletes with a plain DEL right after.
func TestScenes_releases_latchDeletedByTheCaller(t *testing.T) {
	for name, scene := range load(t) {
		for _, c := range scriptCalls(scene) {
			if !strings.HasSuffix(c.Role, ".release") {
				continue
			}
			key := c.Keys[len(c.Keys)-1]
			if !slices.ContainsFunc(scene.Events, func(e Event) bool {
				return e.Kind == Request && e.Node == c.Node && e.Conn == c.Conn && e.At >= c.after && slices.Equal(e.Args, []string{"DEL", key})
			}) {
				t.Errorf("%s: nobody deletes %s", name, key)
			}
		}
	}
}

// The clients ran with lockWatchdogTimeout 3 s: a lock without a lease lives 3 s and is renewed about every second,
// by the timer of its client and master, which need not have started with the lock.
func TestScenes_watchdog_renewsEverySecondToThreeSeconds(t *testing.T) {
	scenes := load(t)
	for _, name := range []string{"watchdog", "read-watchdog", "redlock-watchdog"} {
		last := map[int]time.Duration{} // of each node, when its TTL was last set
		renewed := map[int]int{}
		for _, c := range scriptCalls(scenes[name]) {
			switch {
			case strings.HasSuffix(c.Role, ".renew"):
				renewed[c.Node]++
				if late := c.At - last[c.Node]; late > 1100*time.Millisecond {
					t.Errorf("%s, node %d: renewed after %v", name, c.Node, late)
				}
				fallthrough
			case strings.HasSuffix(c.Role, ".acquire"):
				last[c.Node] = c.At
				if c.Args[0] != "3000" {
					t.Errorf("%s, node %d: %s for %s ms", name, c.Node, c.Role, c.Args[0])
				}
			}
		}
		for node := range last {
			if renewed[node] == 0 {
				t.Errorf("%s: never renewed on node %d", name, node)
			}
		}
	}
}

// A Java red lock has another owner on every master, takes them in order, one after the other, each for longer than
// the lease, and sets the lease afterwards, in order again.
func TestScenes_redlock_ownOwnerOnEachMasterInOrderLeaseLast(t *testing.T) {
	calls := scriptCalls(load(t)["redlock"])
	owners := map[string]bool{}
	for i, want := range []string{
		"1 lock.acquire", "2 lock.acquire", "3 lock.acquire", "1 key.pexpire", "2 key.pexpire", "3 key.pexpire",
		"1 lock.release", "2 lock.release", "3 lock.release",
	} {
		c := calls[i]
		if got := fmt.Sprint(c.Node, " ", c.Role); got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
		if i > 0 && c.At < calls[i-1].after {
			t.Errorf("call %d was sent before call %d was answered", i, i-1)
		}
		switch c.Role {
		case "lock.acquire":
			owners[c.Args[1]] = true
			if number(c.Args[0]) <= 5000 {
				t.Errorf("first taken for %s ms, not more than the lease", c.Args[0])
			}
		case "key.pexpire":
			if c.Args[0] != "5000" {
				t.Errorf("lease set to %s", c.Args[0])
			}
		}
	}
	if len(owners) != 3 {
		t.Errorf("owners on three masters: %v", owners)
	}
}

// With the third master taken by a plain lock, a red lock wins with two, leaves the third alone when it sets the lease,
// and its release there is refused: the other's lock lives on.
func TestScenes_redlockMinorityTaken_winsWithTwoAndSparesTheThird(t *testing.T) {
	var got []string
	for _, c := range scriptCalls(load(t)["redlock-minority-taken"]) {
		got = append(got, fmt.Sprint(c.Node, " ", c.Role, " ", c.reply != nil, " ", len(c.did)))
	}
	want := []string{
		"3 lock.acquire false 2", // the plain lock
		"1 lock.acquire false 2", "2 lock.acquire false 2", "3 lock.acquire true 0", "3 lock.acquire true 0",
		"1 key.pexpire true 1", "2 key.pexpire true 1",
		"1 lock.release true 4", "2 lock.release true 4", "3 lock.release false 0",
		"3 lock.release true 4", // the plain lock's own
	}
	if !slices.Equal(got, want) {
		t.Errorf("\ngot  %q\nwant %q", got, want)
	}
}

// A red lock that meets a held one gives each master its share of the wait and changes nothing anywhere.
func TestScenes_redlockHeld_waiterChangesNothing(t *testing.T) {
	tried := map[int]int{}
	for _, c := range scriptCalls(load(t)["redlock-held"]) {
		if c.Role == "lock.acquire" && c.reply != nil {
			tried[c.Node]++
			if len(c.did) != 0 {
				t.Errorf("at %v: %q", c.At, c.did)
			}
		}
	}
	// Two refusals of three lose the quorum, so it begins anew at master 1 and never reaches master 3.
	if tried[1] != 4 || tried[2] != 2 || tried[3] != 0 {
		t.Errorf("tries of each master: %v", tried)
	}
}
