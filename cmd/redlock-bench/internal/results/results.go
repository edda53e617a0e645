// SPDX-License-Identifier: Apache-2.0

// Package results is what redlock-bench measured: what --json writes, and what pages and comparisons are made of.
package results

import "github.com/redlock-go/redlock/internal/testbed"

// Result is what --json writes. Fields may be added, but none renamed.
type Result struct {
	Command     string       `json:"command"`
	Run         *testbed.Run `json:"run,omitempty"`
	Backend     string       `json:"backend"`
	Masters     int          `json:"masters"`
	TTL         int64        `json:"ttl_ms"`
	Duration    float64      `json:"duration_s"`     // of a cell
	Hurt        string       `json:"hurt,omitempty"` // what was done to one master
	Interrupted bool         `json:"interrupted,omitempty"`
	Broke       string       `json:"broke_off,omitempty"` // why not all was measured; "" if it was, or was interrupted
	Cells       []any        `json:"cells"`               // *LatencyCell, *ContentionCell or *PhaseCell; a tour has the first two

	Outage *Outage `json:"outage,omitempty"` // what is not of one phase
}

// Figures is what was measured of the lock or of the floor. A pointer is null where it is not available.
type Figures struct {
	PairsPerSecond float64  `json:"pairs_per_second"`
	P50            float64  `json:"p50_us"`
	P99            float64  `json:"p99_us"`
	P999           float64  `json:"p999_us"`
	Max            float64  `json:"max_us"`
	CPU            float64  `json:"cpu_us_per_pair"`         // of this process
	MastersCPU     *float64 `json:"masters_cpu_us_per_pair"` // of all masters together
	Errors         int      `json:"errors"`
	// Turns are pairs a second, turn by turn: 50 ms each in latency, 250 ms in outage.
	Turns []float64 `json:"turns_pairs_per_second,omitempty"`

	Bins     []Bin `json:"-"` // of the time of a pair
	FirstErr error `json:"-"`
}

// LatencyCell is one row of latency.
type LatencyCell struct {
	Callers int `json:"callers"`
	Figures
	Floor *Figures `json:"floor"`
	Ratio *Ratio   `json:"ratio"` // lock divided by floor
}

// Ratio is the lock divided by the floor.
type Ratio struct {
	PairsPerSecond float64 `json:"pairs_per_second"`
	// The same ratio turn by turn: its quartiles.
	Low        float64  `json:"pairs_per_second_p25"`
	Median     float64  `json:"pairs_per_second_p50"`
	High       float64  `json:"pairs_per_second_p75"`
	P50        float64  `json:"p50"`
	P99        float64  `json:"p99"`
	P999       float64  `json:"p999"`
	Max        float64  `json:"max"`
	CPU        float64  `json:"cpu"`
	MastersCPU *float64 `json:"masters_cpu"`
}

// ContentionCell is one row of contention.
type ContentionCell struct {
	Waiters   int      `json:"waiters"`
	Clients   int      `json:"clients"`
	Processes int      `json:"processes"` // 0: all in one
	Readers   int      `json:"readers"`
	Unfair    bool     `json:"unfair"`
	Hold      float64  `json:"hold_ms"`
	Rate      float64  `json:"acquisitions_per_second"`
	ReadRate  float64  `json:"reads_per_second"` // those of the readers
	Together  int      `json:"readers_at_once"`  // at most
	WaitP50   float64  `json:"wait_p50_us"`
	WaitP99   float64  `json:"wait_p99_us"`
	WaitMax   float64  `json:"wait_max_us"`
	Held      float64  `json:"held_us"`          // on average; a sleep of hold_ms takes longer
	Trip      float64  `json:"trip_us"`          // a release of a lock that nobody else wants: one round trip
	Limit     float64  `json:"limit_per_second"` // one lock in held_us + trip_us; 0 with readers
	OfLimit   float64  `json:"of_limit"`
	OfTurns   float64  `json:"p99_of_turns"` // wait_p99_us in waiters x (held_us + trip_us); 0 with readers
	Jain      float64  `json:"jain"`
	MinShare  float64  `json:"min_share"` // 1 is an even share
	MaxShare  float64  `json:"max_share"`
	Commands  *float64 `json:"commands_per_acquisition"` // on one master; null where not available
	Rounds    float64  `json:"rounds_per_acquisition"`
	ClientCPU *float64 `json:"client_cpu_us_per_acquisition"` // null where not available
	Overlaps  int      `json:"overlaps"`
	Lost      int      `json:"lost"` // leases whose validity ended during the hold
	Errors    int      `json:"errors"`
	// Turns are acquisitions a second, in equal parts of the run.
	Turns []float64 `json:"turns_acquisitions_per_second,omitempty"`

	Acquired int      `json:"-"`
	Picture  *Picture `json:"-"`
	FirstErr error    `json:"-"`
}

// PhaseCell is one row of outage.
type PhaseCell struct {
	Phase   string  `json:"phase"`
	At      float64 `json:"at_s"`    // when it began, from when the first phase did
	Seconds float64 `json:"seconds"` // of load
	Figures
	Pairs      int64       `json:"pairs"`
	Median     float64     `json:"pairs_per_second_p50"` // of turns of 250 ms
	Heap       uint64      `json:"heap_bytes"`
	Goroutines int         `json:"goroutines"`
	Ratio      *PhaseRatio `json:"ratio"` // divided by before; null in that
}

// PhaseRatio is a phase divided by the first.
type PhaseRatio struct {
	Median float64 `json:"pairs_per_second_p50"`
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	CPU    float64 `json:"cpu"`
	Heap   float64 `json:"heap"`
}

// Outage is what outage says of no single phase. Times are in seconds from when the returned master answered again; null is never, or that the
// run broke off before.
type Outage struct {
	MaxTTL int64    `json:"max_ttl_ms"`
	Up     *float64 `json:"answered_at_s"`  // when it answered again, from when the first phase began
	Wait   float64  `json:"wait_s"`         // what it must wait
	Voting *float64 `json:"voting_after_s"` // until its record let it vote
	Votes  *float64 `json:"votes_after_s"`  // until a vote of it was seen
	Owed   *Owed    `json:"owed"`           // null: the run broke off before
	Failed []string `json:"failed"`         // what does not hold that must
}

// Owed is what is left 5 s after the last fault.
type Owed struct {
	Keys    int `json:"keys"`    // of locks that nobody holds, on all masters
	Scripts int `json:"scripts"` // run by all masters in the last second, for a client that has nothing to do
	// Releases are those that the client says no master has acknowledged.
	Releases int `json:"unacknowledged_releases"`
}
