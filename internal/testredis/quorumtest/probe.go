// SPDX-License-Identifier: Apache-2.0

package quorumtest

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"
)

// Probe measures what a quorum's round trip costs at present, with nothing of the
// library in it: a PING to every master at once, until a majority has answered.
type Probe struct {
	t       testing.TB
	conns   []net.Conn
	answers chan error
	open    int // answers that are still to come
}

// Probe makes a probe that goes this way.
func (p *Path) Probe() *Probe {
	p.m.t.Helper()
	addrs := make([]string, len(p.Proxies))
	for i, proxy := range p.Proxies {
		addrs[i] = proxy.Addr()
	}
	return newProbe(p.m.t, addrs)
}

// Probe makes a probe that goes straight to the masters.
func (m *Masters) Probe() *Probe {
	m.t.Helper()
	addrs := make([]string, len(m.Servers))
	for i, s := range m.Servers {
		addrs[i] = s.Addr()
	}
	return newProbe(m.t, addrs)
}

func newProbe(t testing.TB, addrs []string) *Probe {
	t.Helper()
	p := &Probe{t: t, answers: make(chan error, 2*len(addrs))}
	for _, a := range addrs {
		conn, err := net.Dial("tcp", a)
		NoErr(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		p.conns = append(p.conns, conn)
		r := bufio.NewReader(conn)
		go func() { // until the connection is closed
			for {
				line, err := r.ReadString('\n')
				if err == nil && line != "+PONG\r\n" {
					err = fmt.Errorf("PING was answered %q", line)
				}
				p.answers <- err
				if err != nil {
					return
				}
			}
		}()
	}
	return p
}

// RoundTrip takes one measurement.
func (p *Probe) RoundTrip() time.Duration {
	p.t.Helper()
	for ; p.open > 0; p.open-- {
		NoErr(p.t, <-p.answers)
	}
	start := time.Now()
	for _, c := range p.conns {
		_, err := c.Write([]byte("PING\r\n"))
		NoErr(p.t, err)
	}
	p.open = len(p.conns)
	for range len(p.conns)/2 + 1 {
		p.open--
		NoErr(p.t, <-p.answers)
	}
	return time.Since(start)
}

// Times is a sample of durations.
type Times []time.Duration

// Mean of the sample.
func (ts Times) Mean() time.Duration {
	var sum time.Duration
	for _, d := range ts {
		sum += d
	}
	return sum / time.Duration(max(len(ts), 1))
}

// Quantile is the smallest duration that the share q of the sample does not pass.
func (ts Times) Quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(ts))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// Max of the sample.
func (ts Times) Max() time.Duration { return slices.Max(ts) }

func (ts Times) String() string {
	us := func(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
	return fmt.Sprintf("mean %v, median %v, p99 %v, max %v", us(ts.Mean()), us(ts.Quantile(0.5)), us(ts.Quantile(0.99)), us(ts.Max()))
}
