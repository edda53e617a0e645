// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// far returns what doctor says of masters whose round trips are long, or nil. The trip is that of the fastest of a few.
func far(patients []patient) []complaint {
	var trips []time.Duration
	for _, p := range patients {
		if p.Clock != nil {
			trips = append(trips, time.Duration(2*p.Clock.Error*float64(time.Millisecond)))
		}
	}
	n := len(patients)
	trip := protocol.QuorumTrip(trips, n/2+1)
	if 2*trip <= protocol.DefaultNodeTimeout {
		return nil
	}
	return []complaint{{Kind: "far", Cause: "far", Remedy: "use a longer TTL, and no shorter WithNodeTimeout", Text: fmt.Sprintf("a round trip to a quorum of the masters takes %v: a TTL below %v is too short for it, and so is a WithNodeTimeout below %v",
		trip.Round(time.Millisecond), (2 * trip * time.Duration(n)).Round(10*time.Millisecond), (2 * trip).Round(time.Millisecond))}}
}
