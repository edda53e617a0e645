// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node"
)

// patient gives a handshake the time that it takes on a busy host.
var patient = node.Config{DialTimeout: 10 * time.Second}

// opened opens a node that is closed with the test.
func opened(t *testing.T, url string, cfg node.Config) node.Node {
	t.Helper()
	n, err := node.Open(url, cfg)
	quorumtest.NoErr(t, err)
	n.Bind(protocol.Binding{Admit: func(protocol.Identity) error { return nil }})
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// ready returns the error of the first connection to url.
func ready(t *testing.T, url string, cfg node.Config) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return opened(t, url, cfg).Ready(ctx)
}

type replies chan error

func (r replies) Receive(op *protocol.Op) { r <- op.Reply.Err }

// asked has n read the record, and returns the error.
func asked(n node.Node) error {
	now := clock.System().Elapsed()
	got := make(replies, 1)
	op := &protocol.Op{Request: &protocol.Request{Kind: protocol.ReadRecord, Start: now, Deadline: now + 5*time.Second}, To: got}
	if !n.Submit(op) {
		return op.Reply.Err
	}
	return <-got
}

// A server that wants a certificate of its clients: who is let in, and what the others are told.
func TestTLS_whoIsLetIn(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	s := quorumtest.StartSecure(t, 1, localredis.Config{})
	stranger := quorumtest.NewAuthority(t)
	otherCert, otherKey := stranger.Issue("client", time.Now().Add(time.Hour))
	oldCert, oldKey := s.Issue("expired", time.Now().Add(-time.Minute))
	good := quorumtest.Params(s.Cert, s.Key, s.CA)
	at := "rediss://" + s.Addrs[0] + "?"
	for name, tc := range map[string]struct{ url, cause string }{
		"all fits":                      {at + good, ""},
		"in database 3 with a name":     {"rediss://" + s.Addrs[0] + "/3?name=m1&" + good, ""},
		"name of the server":            {at + good + "&server_name=" + quorumtest.TLSName, ""},
		"another name":                  {at + good + "&server_name=other.test", "certificate"},
		"no certificate":                {at + "ca=" + s.CA, "client certificate"},
		"certificate of a stranger":     {at + quorumtest.Params(otherCert, otherKey, s.CA), "client certificate"},
		"certificate that is over":      {at + quorumtest.Params(oldCert, oldKey, s.CA), "client certificate"},
		"authority not known":           {at + quorumtest.Params(s.Cert, s.Key, ""), "certificate"},
		"another authority":             {at + quorumtest.Params(s.Cert, s.Key, stranger.CA), "certificate"},
		"redis:// and not rediss://":    {"redis://" + s.Addrs[0], "TLS missing"},
		"rediss:// to the port without": {"rediss://" + s.Servers[0].Addr() + "?" + good, "TLS"},
		"nobody there":                  {"rediss://127.0.0.1:1?" + good, "no server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := patient
			if tc.cause == "TLS" {
				cfg = node.Config{} // ended by the limit
			}
			err := ready(t, tc.url, cfg)
			if got := cause.Of(err).Word; got != tc.cause {
				t.Errorf("%v: cause %q, want %q", err, got, tc.cause)
			}
			isTLS := tc.cause == "certificate" || tc.cause == "client certificate" || tc.cause == "TLS"
			if isTLS && !errors.Is(err, protocol.ErrTLS) {
				t.Errorf("%v: no ErrTLS", err)
			}
		})
	}
}

// A client of go-redis has its own dialer, and the cause is told all the same.
func TestTLS_clientOfGoRedis_causeIsTold(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	s := quorumtest.StartSecure(t, 1, localredis.Config{})
	pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	quorumtest.NoErr(t, err)
	authority, err := os.ReadFile(s.CA)
	quorumtest.NoErr(t, err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	for want, cfg := range map[string]*tls.Config{
		"":                   {RootCAs: trusted, Certificates: []tls.Certificate{pair}},
		"certificate":        {Certificates: []tls.Certificate{pair}},
		"client certificate": {RootCAs: trusted},
		"TLS refused":        {RootCAs: trusted, MaxVersion: tls.VersionTLS12},
	} {
		c := redis.NewClient(&redis.Options{Addr: s.Addrs[0], TLSConfig: cfg})
		n, err := node.New(c, patient)
		quorumtest.NoErr(t, err)
		n.Bind(protocol.Binding{Admit: func(protocol.Identity) error { return nil }})
		err = n.Ready(t.Context())
		if got := cause.Of(err).Word; got != want || want != "" && !errors.Is(err, protocol.ErrTLS) {
			t.Errorf("%v: cause %q, want %q", err, got, want)
		}
		_ = n.Close()
		_ = c.Close()
	}
}

// A server that hangs up before the client's first write has said why, and the error of the write says it too.
func TestTLS_writeFails_alertIsRead(t *testing.T) {
	needs.Linux(t, "what was received stays after a reset")
	t.Parallel()
	a := quorumtest.NewAuthority(t)
	pair, err := tls.LoadX509KeyPair(a.Issue(quorumtest.TLSName, time.Now().Add(time.Hour)))
	quorumtest.NoErr(t, err)
	gone := make(chan struct{})
	addr := served(t, func(c net.Conn) {
		defer close(gone)
		_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}).Handshake()
		_ = c.(*net.TCPConn).SetLinger(0) // a reset, as of a server that has not read all
		_ = c.Close()
	})
	n := opened(t, "rediss://"+addr+"?ca="+a.CA, patient)
	dial := n.(interface{ Direct() []redis.Options }).Direct()[0].Dialer
	c, err := dial(t.Context(), "tcp", addr)
	quorumtest.NoErr(t, err)
	defer c.Close()
	<-gone
	for err == nil { // the first may still be taken by the kernel
		_, err = c.Write([]byte("PING\r\n"))
	}
	if got := cause.Of(err).Word; got != "client certificate" || !errors.Is(err, protocol.ErrTLS) {
		t.Errorf("%v: cause %q", err, got)
	}
}

// A handshake that takes longer than connecting may, as on a busy host, ends.
func TestTLS_handshakeLongerThanDialTimeout_ends(t *testing.T) {
	t.Parallel()
	a := quorumtest.NewAuthority(t)
	pair, err := tls.LoadX509KeyPair(a.Issue(quorumtest.TLSName, time.Now().Add(time.Hour)))
	quorumtest.NoErr(t, err)
	const limit = time.Second / 2
	for _, scheme := range []string{"rediss://%s?ca=%s", "rediss-cluster://%s/?tag=x&ca=%s"} {
		ended := make(chan struct{})
		end := sync.OnceFunc(func() { close(ended) })
		addr := served(t, func(c net.Conn) {
			time.Sleep(limit * 6 / 5)
			if tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake() == nil {
				end()
			}
		})
		n, err := node.Open(fmt.Sprintf(scheme, addr, a.CA), node.Config{DialTimeout: limit})
		quorumtest.NoErr(t, err)
		defer n.Close()
		n.Bind(protocol.Binding{})
		go func() { _ = n.Ready(t.Context()) }() // the lane tries until the test ends
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Errorf("%s: no handshake ended", scheme)
		}
	}
}

// The dialer of a go-redis client with TLS looks at no context, and waits for the client's own DialTimeout.
func TestNew_clientWithTLS_handshakeHangs_endsWithDialTimeout(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	addr := served(t, func(net.Conn) { <-ended })
	client := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: 3 * time.Second, TLSConfig: &tls.Config{InsecureSkipVerify: true}})
	defer client.Close()
	n, err := node.New(client, node.Config{DialTimeout: 50 * time.Millisecond})
	quorumtest.NoErr(t, err)
	n.Bind(protocol.Binding{})
	start := time.Now()
	if err := n.Ready(t.Context()); err == nil {
		t.Error("a server that says nothing is ready")
	}
	n.Close()
	d := time.Since(start)
	close(ended)
	if d > client.Options().DialTimeout/2 {
		t.Errorf("Ready and Close took %v", d)
	}
}

// A certificate and an authority that are replaced on disk are used by the next connection.
func TestTLS_filesReplaced_nextConnectionHasThem(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	s := quorumtest.StartSecure(t, 1, localredis.Config{})
	cert, key, ca := s.Cert, s.Key, s.CA
	n := opened(t, s.URL(0), patient)
	quorumtest.NoErr(t, n.Ready(t.Context()))

	// The server trusts another authority from now on, and has a certificate of it.
	next := quorumtest.NewAuthority(t)
	serverCert, serverKey := next.Issue(quorumtest.TLSName, time.Now().Add(time.Hour))
	clientCert, clientKey := next.Issue("client", time.Now().Add(time.Hour))
	admin := redis.NewClient(&redis.Options{Addr: s.Servers[0].Addr()})
	defer admin.Close()
	quorumtest.NoErr(t, admin.Do(t.Context(), "config", "set", "tls-cert-file", serverCert, "tls-key-file", serverKey, "tls-ca-cert-file", next.CA).Err())
	quorumtest.NoErr(t, admin.Do(t.Context(), "client", "kill", "skipme", "yes").Err())
	quorumtest.Soon(t, "the old files are refused", func() bool { return cause.Of(asked(n)).Word == "certificate" })

	copyFile(t, next.CA, ca)
	quorumtest.Soon(t, "the server is trusted, and the client is not", func() bool { return cause.Of(asked(n)).Word == "client certificate" })
	quorumtest.NoErr(t, os.Remove(key))
	quorumtest.Soon(t, "a file that is gone is named", func() bool {
		err := asked(n)
		return cause.Of(err).Word == "TLS file" && strings.Contains(err.Error(), key)
	})
	copyFile(t, clientCert, cert)
	copyFile(t, clientKey, key)
	quorumtest.Soon(t, "the new files are used", func() bool { return asked(n) == nil })
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	quorumtest.NoErr(t, err)
	quorumtest.NoErr(t, os.WriteFile(to, text, 0o600))
}

// A server that closes an idle connection ends TLS with an alert first. The lane takes that for what it is, so the next op gets an answer.
func TestTLS_serverClosesAnIdleConnection_firstOpIsAnswered(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	s := quorumtest.StartSecure(t, 1, localredis.Config{})
	n := opened(t, s.URL(0), patient)
	quorumtest.NoErr(t, n.Ready(t.Context()))
	admin := redis.NewClient(&redis.Options{Addr: s.Servers[0].Addr()})
	defer admin.Close()
	for range 5 {
		quorumtest.NoErr(t, asked(n))
		time.Sleep(5 * time.Millisecond) // the lane is idle for longer than idleAfter
		quorumtest.NoErr(t, admin.Do(t.Context(), "client", "kill", "skipme", "yes").Err())
		if err := asked(n); err != nil {
			t.Errorf("the first op on a connection that was closed: %v", err)
		}
	}
}

// One slot of a cluster over TLS.
func TestTLS_clusterSlot(t *testing.T) {
	needs.Cluster(t)
	t.Parallel()
	s := quorumtest.StartSecure(t, 1, localredis.Config{Cluster: true, Args: []string{"--tls-cluster", "yes"}})
	admin := redis.NewClient(&redis.Options{Addr: s.Servers[0].Addr()})
	defer admin.Close()
	quorumtest.NoErr(t, admin.Do(t.Context(), "cluster", "addslotsrange", 0, 16383).Err())
	url := fmt.Sprintf("rediss-cluster://127.0.0.1:1,%s/?tag=locks&", s.Addrs[0])
	quorumtest.Soon(t, "the cluster serves", func() bool { return ready(t, url+quorumtest.Params(s.Cert, s.Key, s.CA), patient) == nil })
	if err := ready(t, url+"ca="+s.CA, patient); err == nil {
		t.Error("let in without a certificate")
	}
}

// Each file that cannot be used is an error of Open that names it and says what to do.
func TestTLS_badFiles_openNamesThem(t *testing.T) {
	t.Parallel()
	a := quorumtest.NewAuthority(t)
	cert, key := a.Issue("client", time.Now().Add(time.Hour))
	_, otherKey := a.Issue("other", time.Now().Add(time.Hour))
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		quorumtest.NoErr(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	none, empty := filepath.Join(dir, "none.pem"), file("empty.pem", "")
	junk := file("junk.pem", "-----BEGIN CERTIFICATE-----\nMTIz\n-----END CERTIFICATE-----\n")
	encrypted := file("encrypted.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMTIz\n-----END ENCRYPTED PRIVATE KEY-----\n")
	for name, tc := range map[string]struct {
		params string
		says   []string
	}{
		"cert missing":        {quorumtest.Params(none, key, ""), []string{none, "(cert) cannot be read: no such file", "name a PEM file"}},
		"key missing":         {quorumtest.Params(cert, none, ""), []string{none, "(key) cannot be read"}},
		"ca missing":          {quorumtest.Params("", "", none), []string{none, "(ca) cannot be read"}},
		"a directory":         {quorumtest.Params("", "", dir), []string{dir, "no regular file"}},
		"a device":            {quorumtest.Params("", "", os.DevNull), []string{os.DevNull, "no regular file"}},
		"ca empty":            {quorumtest.Params("", "", empty), []string{empty, "has no certificate", "authority"}},
		"ca is a key":         {quorumtest.Params("", "", key), []string{key, "has no certificate"}},
		"ca is junk":          {quorumtest.Params("", "", junk), []string{junk, "has no certificate"}},
		"cert is a key":       {quorumtest.Params(key, key, ""), []string{key, "has no certificate", "BEGIN CERTIFICATE"}},
		"cert is junk":        {quorumtest.Params(junk, key, ""), []string{junk, "cannot be used", "make both anew"}},
		"key is a cert":       {quorumtest.Params(cert, cert, ""), []string{cert, "has no private key", "BEGIN PRIVATE KEY"}},
		"key encrypted":       {quorumtest.Params(cert, encrypted, ""), []string{encrypted, "is encrypted", "openssl pkey"}},
		"key of another":      {quorumtest.Params(cert, otherKey, ""), []string{otherKey, cert, "does not fit", "give the key"}},
		"cert without key":    {quorumtest.Params(cert, "", ""), []string{"cert without key"}},
		"key without cert":    {quorumtest.Params("", key, ""), []string{"key without cert"}},
		"an unescaped @":      {"ca=secret@x", []string{"%40"}},
		"a password as file":  {"ca=password=topsecret", []string{"password=***"}},
		"an unknown one also": {quorumtest.Params(cert, key, a.CA) + "&tsl=1", []string{"tsl"}},
	} {
		for _, form := range []string{"rediss://host:1?", "rediss-sentinel://a,b/mine?", "rediss-cluster://a,b/?tag=x&"} {
			n, err := node.Open(form+tc.params, node.Config{})
			if err == nil {
				_ = n.Close()
				t.Errorf("%s: %s passed", name, form)
				continue
			}
			for _, says := range tc.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v; want it to say %q", name, err, says)
				}
			}
			if strings.Contains(err.Error(), "topsecret") || strings.Contains(err.Error(), "TLS file") && strings.Contains(err.Error(), "secret@x") {
				t.Errorf("%s tells the secret: %v", name, err)
			}
		}
	}
	for _, url := range []string{"redis://host?ca=" + a.CA, "unix:///s?ca=" + a.CA, "redis-sentinel://a/m?server_name=x", "redis-cluster://a/?tag=x&ca=" + a.CA} {
		if _, err := node.Open(url, node.Config{}); err == nil || !strings.Contains(err.Error(), "rediss://") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
