// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

const (
	pulseEvery = 500 * time.Millisecond
	lagEvery   = 10 * time.Millisecond // how often Pulses looks how late its timer is
)

// Pulses appends a history.Pulse of this process twice a second until ctx ends, and one more then. It returns the first error of w.
func Pulses(ctx context.Context, w *history.Writer, process string) error {
	tick := time.NewTicker(lagEvery)
	defer tick.Stop()
	var lag time.Duration
	said := time.Now()
	for before := said; ; {
		over := false
		select {
		case <-tick.C:
		case <-ctx.Done():
			over = true
		}
		now := time.Now()
		lag, before = max(lag, now.Sub(before)-lagEvery), now
		if !over && now.Sub(said) < pulseEvery {
			continue
		}
		if err := pulse(w, history.Pulse{Process: process, Lag: lag, Goroutines: runtime.NumGoroutine()}); err != nil || over {
			return err
		}
		lag, said = 0, now
	}
}

// pulse appends p with the time and the heap of now.
func pulse(w *history.Writer, p history.Pulse) error {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	p.At, p.Heap = history.Now(), live[0].Value.Uint64()
	return w.Append(p)
}

// firstPulse appends the first Pulse of a client, which had so many goroutines before it opened anything.
func firstPulse(w *history.Writer, process string, goroutines int) error {
	return pulse(w, history.Pulse{Process: process, Goroutines: goroutines, Idle: true})
}

// The goroutines of a closed client may take endTime to end, and as much longer as endLooks need on a busy machine.
const (
	endTime  = 2 * time.Second
	endLooks = 500
)

// lastPulse appends the last Pulse of a client, which has closed its connections and the lock's client. It waits until no more goroutines
// are left than before the client opened them, for as long as they may take.
func lastPulse(w *history.Writer, process string, before int) error {
	awaitEnds(before, runtime.NumGoroutine, func() { time.Sleep(time.Millisecond) }) // nothing tells when a goroutine has ended
	return pulse(w, history.Pulse{Process: process, Goroutines: runtime.NumGoroutine(), Idle: true})
}

// awaitEnds looks, with a pause between two looks, until no more goroutines run than before. By the time alone it would end with the first
// look where the process was held up, and its goroutines with it.
func awaitEnds(before int, running func() int, pause func()) {
	end := time.Now().Add(endTime)
	for looks := 0; running() > before && (looks < endLooks || time.Now().Before(end)); looks++ {
		pause()
	}
}
