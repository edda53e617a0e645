// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/sim"
)

// world is a simulation that is made for finding mutants: little time, much of what a missing defence needs.
type world struct {
	name, what string
	cfg        sim.Config
}

const (
	shortWorld     = "short"
	leftWorld      = "left"
	readersWorld   = "readers"
	vanishWorld    = "vanish"
	forgetfulWorld = "forgetful"
	operatedWorld  = "operated"
)

var worlds = []world{
	{shortWorld, "leases that end while their holders work on, and steps of one clock", sim.Config{
		Duration: 6 * time.Second, Clients: 5, Locks: 3, MaxTTL: 400 * time.Millisecond, Pace: 300 * time.Millisecond, Odds: 5, Linger: 10, Steps: true,
		Nemeses: []string{"N1", "N4", "N7", "N8", "N9", "N9", "N10", "N11", "N12", "N17", "N19"}}},
	{leftWorld, "leases that outlive the run, so that no TTL removes what is left behind", sim.Config{
		Duration: 3 * time.Second, Clients: 5, Locks: 8, MaxTTL: time.Minute, Pace: 200 * time.Millisecond, Odds: 10, Left: true,
		Nemeses: []string{"N7", "N9", "N10", "N11", "N12"}}},
	{readersWorld, "one lock that readers and writers want", sim.Config{
		Duration: 3 * time.Second, Clients: 6, Workers: 2, Locks: 1, MaxTTL: 400 * time.Millisecond, Pace: 300 * time.Millisecond, Odds: 5,
		Nemeses: []string{"N8", "N9", "N10", "N11", "N12"}}},
	{vanishWorld, "votes that are deleted", sim.Config{
		Duration: 3 * time.Second, Clients: 5, Locks: 2, MaxTTL: 400 * time.Millisecond, Pace: 50 * time.Millisecond, Odds: 5,
		Nemeses: []string{"N9", "N10", "N12", "N17-del"}}},
	{forgetfulWorld, "masters that lose their data again and again", sim.Config{
		Duration: 6 * time.Second, Clients: 5, Locks: 4, MaxTTL: 400 * time.Millisecond, Pace: 150 * time.Millisecond, Odds: 10,
		Nemeses: []string{"N4", "N9", "N9", "N10", "N12", "N17"}}},
	{operatedWorld, "changes of masters, and leases that end while their holders work on", sim.Config{
		Duration: 20 * time.Second, Clients: 5, Locks: 2, Operated: true, Linger: 20}},
}

// The lock with every defence keeps the promises in the worlds in which its mutants are hunted.
func TestRun_worldsOfTheMutants_keepEveryPromise(t *testing.T) {
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) { many(t, operations(count(800, 3_000, 1_000_000)), w.cfg) })
	}
}
