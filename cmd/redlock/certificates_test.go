// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// rotation is three masters with TLS whose certificates change, and a program that holds a lock all the time.
type rotation struct {
	t      *testing.T
	s      *quorumtest.Secure
	trusts string // the file of the authorities that the program and the commands trust
	lease  *redlock.Lease
}

// list are the URLs with that file of authorities.
func (r *rotation) list(ca string) string {
	var urls []string
	for _, addr := range r.s.Addrs {
		urls = append(urls, "rediss://"+addr+"?"+quorumtest.Params(r.s.Cert, r.s.Key, ca))
	}
	return strings.Join(urls, ",")
}

// trust writes the file anew.
func (r *rotation) trust(authorities ...*quorumtest.Authority) {
	r.t.Helper()
	var both []byte
	for _, a := range authorities {
		pem, err := os.ReadFile(a.CA)
		must(r.t, err)
		both = append(both, pem...)
	}
	must(r.t, os.WriteFile(r.trusts, both, 0o600))
}

// change gives master i the certificate, as the runbook says, and has all who are connected connect again.
func (r *rotation) change(i int, cert, key string) {
	r.t.Helper()
	c := direct(r.t, r.s.Servers[i].URL())
	must(r.t, c.Do(r.t.Context(), "config", "set", "tls-cert-file", cert, "tls-key-file", key).Err())
	must(r.t, c.Do(r.t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
}

// holds looks that all masters vote and the lock was not lost.
func (r *rotation) holds(after string) {
	r.t.Helper()
	stall.Try(r.t, handshake, func(t testing.TB) {
		if code, stdout, stderr := cli(t, "status", "--max-ttl", rotationTTL.String(), "--nodes", r.list(r.trusts)); code != exitOK {
			t.Errorf("after %s: exit code %d: %s%s", after, code, stdout, stderr)
		}
	})
	if r.lease.Context().Err() != nil {
		r.t.Fatalf("after %s the lock was lost", after)
	}
}

// shows is the name in the certificate that master i shows.
func (r *rotation) shows(i int) (name string) {
	r.t.Helper()
	pair, err := tls.LoadX509KeyPair(r.s.Cert, r.s.Key)
	must(r.t, err)
	c, err := tls.Dial("tcp", r.s.Addrs[i], &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}) //nolint:gosec // it looks only
	must(r.t, err)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// rotationTTL is longer than a busy machine holds the lease's renewal up.
const rotationTTL = 6 * time.Second

func TestRotation_ofCertificates_noLockIsLost(t *testing.T) {
	needs.Cluster(t) // 6.2 takes one setting a command, and a certificate without its key is refused
	needs.Test(t)
	t.Parallel()
	r := &rotation{t: t, s: quorumtest.StartSecure(t, 3, localredis.Config{}), trusts: filepath.Join(t.TempDir(), "ca.pem")}
	r.trust(r.s.Authority)
	expectCode(t, exitOK, "init", never, "--max-ttl", rotationTTL.String(), "--nodes", r.list(r.trusts))
	r.lease = take(t, openClient(t, r.list(r.trusts), redlock.WithMaxTTL(rotationTTL), redlock.WithTTL(rotationTTL), redlock.WithNodeTimeout(2*time.Second)), "held")

	cert, key := r.s.Issue("second.test", time.Now().Add(time.Hour))
	for i := range 3 {
		r.change(i, cert, key)
		if got := r.shows(i); got != "second.test" {
			t.Errorf("master %d shows %s", i, got)
		}
		r.holds("a certificate of the same authority")
	}

	other := quorumtest.NewAuthority(t)
	forgotten := r.list(r.s.CA) // of a host on which nobody changed the file
	r.trust(r.s.Authority, other)
	cert, key = other.Issue("third.test", time.Now().Add(time.Hour))
	for i := range 3 {
		r.change(i, cert, key)
		if i == 0 {
			said := expectCode(t, exitRecovers, "status", "--max-ttl", rotationTTL.String(), "--nodes", forgotten)
			wantSaid(t, strings.Join(strings.Fields(said), " "), "x509: certificate signed by unknown authority", "trust its authority")
		}
		r.holds("a certificate of another authority")
	}
	r.trust(other)
	for i := range 3 {
		must(t, direct(t, r.s.Servers[i].URL()).Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
		r.holds("the old authority was taken out")
	}
	expectCode(t, exitMasters, "status", "--max-ttl", rotationTTL.String(), "--nodes", forgotten)
	time.Sleep(rotationTTL) // what was renewed before has ended: the new connections renew
	r.holds("a TTL")
	lives(t, r.lease)
}
