// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/sim"
)

// world is a simulation that is made for finding mutants: little time, much of what a missing defence needs.
type world struct {
	name, what string
	cfg        sim.Config
}

const (
	shortWorld     = "short"
	leftWorld      = "left"
	frozenWorld    = "frozen"
	readersWorld   = "readers"
	vanishWorld    = "vanish"
	forgetfulWorld = "forgetful"
	mixedWorld     = "mixed"
	operatedWorld  = "operated"
	handedWorld    = "handed"
	restartedWorld = "restarted"
)

var worlds = []world{
	{shortWorld, "leases that end while their holders work on, and steps of one clock", sim.Config{
		Duration: 8 * time.Second, Clients: 5, Locks: 2, MaxTTL: 400 * time.Millisecond, Pace: 800 * time.Millisecond, Odds: 5, Linger: 40, Steps: true,
		Nemeses: []string{"freeze-masters", "freeze-client", "partition", "partition", "reorder", "cut-replies", "slow-replies"}}},
	{leftWorld, "leases that outlive the run, so that no TTL removes what is left behind", sim.Config{
		Duration: 3 * time.Second, Clients: 5, Locks: 8, MaxTTL: time.Minute, Pace: 200 * time.Millisecond, Odds: 10, Left: true,
		Nemeses: []string{"freeze-masters", "partition", "reorder", "cut-replies", "slow-replies"}}},
	{frozenWorld, "masters that are frozen for longer than a lease", sim.Config{
		Duration: time.Minute, Clients: 5, Locks: 4, MaxTTL: 20 * time.Second, Pace: 30 * time.Second, Think: 300 * time.Millisecond, Left: true,
		Nemeses: []string{"freeze-masters"}}},
	{readersWorld, "one lock that readers and writers want", sim.Config{
		Duration: 3 * time.Second, Clients: 6, Workers: 2, Locks: 1, MaxTTL: 400 * time.Millisecond, Pace: 300 * time.Millisecond, Odds: 5,
		Nemeses: []string{"freeze-client", "partition", "reorder", "cut-replies", "slow-replies"}}},
	{vanishWorld, "votes that are deleted", sim.Config{
		Duration: 3 * time.Second, Clients: 5, Locks: 2, MaxTTL: 400 * time.Millisecond, Pace: 50 * time.Millisecond, Odds: 5,
		Nemeses: []string{"partition", "reorder", "slow-replies", "delete-lock"}}},
	{forgetfulWorld, "masters that lose their data again and again", sim.Config{
		Duration: 6 * time.Second, Clients: 5, Locks: 3, MaxTTL: 400 * time.Millisecond, Pace: 150 * time.Millisecond, Odds: 10, Linger: 30,
		Nemeses: []string{"wipe-minority", "partition", "partition", "reorder", "slow-replies", "flush-data"}}},
	{mixedWorld, "clients with another list of masters", sim.Config{
		Duration: 3 * time.Second, Clients: 5, Locks: 2, MaxTTL: 400 * time.Millisecond, Pace: 300 * time.Millisecond,
		Nemeses: []string{"partition", "slow-replies", "misconfigure"}}},
	{operatedWorld, "changes of masters, and leases that end while their holders work on", sim.Config{
		Duration: 20 * time.Second, Clients: 5, Locks: 2, Operated: true, Linger: 20}},
	{handedWorld, "locks that are handed on, by messages that are late or lost, to holders that work on", sim.Config{
		Duration: 20 * time.Second, Clients: 6, Locks: 2, MinTTL: 3 * time.Second, MaxTTL: 6 * time.Second, Pace: time.Second, Lasts: 5 * time.Second,
		Think: 20 * time.Millisecond, Linger: 5, Odds: 2, Downgrade: 20, Messages: true,
		Nemeses: []string{"freeze-masters", "freeze-client", "kill-client", "partition", "partition", "partition", "reorder", "cut-replies", "slow-replies"}}},
	{restartedWorld, "locks that are handed on by masters that restart, forget, and get old data back", sim.Config{
		Duration: 30 * time.Second, Clients: 6, Locks: 2, MinTTL: 3 * time.Second, MaxTTL: 3500 * time.Millisecond, Pace: 2 * time.Second, Lasts: 4 * time.Second,
		Think: 20 * time.Millisecond, Linger: 10, Odds: 2, Messages: true,
		Nemeses: []string{"kill-minority", "kill-majority", "wipe-minority", "freeze-client", "partition", "partition", "reorder", "cut-replies", "flush-data", "fail-over"}}},
}

// The lock with every defence keeps the promises in the worlds in which its mutants are hunted.
func TestRun_worldsOfTheMutants_keepEveryPromise(t *testing.T) {
	needs.NoRace(t, oneProcessor)
	needs.CI(t)
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) { many(t, operations(count(t, 3_000, 1_000_000)), w.cfg) })
	}
}
