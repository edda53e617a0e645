// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// anotherServer is a server that is no master: serve has each connection.
func anotherServer(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(5 * time.Second))
				serve(c)
			})
		}
	})
	return l.Addr().String()
}

// says answers each line with text.
func saysAlways(text string) func(net.Conn) {
	return func(c net.Conn) {
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if _, err := c.Write([]byte(text)); err != nil {
				return
			}
		}
	}
}

// elsewhere gives master 2 another address in its URL, under its name.
func (a *advised) elsewhere(scheme, addr, params string) {
	a.urls[2] = scheme + "://" + addr + "?name=" + a.servers[2].Addr() + params
}

// right gives master 2 the URL that it has.
func (a *advised) right() { a.urls[2] = a.servers[2].URL() }

// mend does what the remedy of master 2 says, which has those words.
func mend(does func(a *advised), says ...string) func(*advised, *statusJSON) {
	return func(a *advised, s *statusJSON) {
		a.t.Helper()
		wantSaid(a.t, s.Masters[2].Text+": "+s.Masters[2].Remedy, says...)
		does(a)
	}
}

// setting changes a setting of master 2.
func setting(name, value string) func(*advised) {
	return func(a *advised) {
		a.t.Helper()
		must(a.t, direct(a.t, a.servers[2].URL()).ConfigSet(a.t.Context(), name, value).Err())
	}
}

// secure has the list begin with a master 2 that has TLS. It has the same name on both ports.
func (a *advised) secure() *quorumtest.Secure {
	a.t.Helper()
	s := quorumtest.StartSecure(a.t, 1, localredis.Config{})
	a.with(s.Servers[0])
	return s
}

// with has the list begin with another master 2.
func (a *advised) with(s *localredis.Server) {
	a.t.Helper()
	a.servers = append(append([]*localredis.Server{}, a.servers[:2]...), s)
	a.urls[2] = s.URL()
	for _, server := range a.servers {
		must(a.t, direct(a.t, server.URL()).FlushAll(a.t.Context()).Err())
	}
	a.begin()
}

// withTLS is a scene of a master with TLS: wrong is what its URL lacks, of a URL that has all.
func withTLS(name, cause string, wrong func(a *advised, s *quorumtest.Secure), says ...string) adviceScene {
	var s *quorumtest.Secure
	return adviceScene{name, "recovering", "locks work", cause, exitRecovers, func(a *advised) {
		s = a.secure()
		wrong(a, s)
	}, mend(func(a *advised) { a.elsewhere("rediss", s.Addrs[0], "&"+quorumtest.Params(s.Cert, s.Key, s.CA)) }, says...)}
}

// causeScenes: master 2 is spoiled in each way that makes another cause, and a quorum votes. TestAdvice_isTrue has the other causes.
var causeScenes = []adviceScene{
	{"frozen", "recovering", "locks work", "no answer", exitRecovers, func(a *advised) { must(a.t, a.servers[2].Pause()) },
		mend(func(a *advised) { must(a.t, a.servers[2].Resume()) }, "is out of reach (no answer)", "start the master")},
	{"replicas gone", "recovering", "locks work", "replicas", exitRecovers, setting("min-replicas-to-write", "1"),
		mend(setting("min-replicas-to-write", "0"), "NOREPLICAS", "lower min-replicas-to-write")},
	{"host of no name", "recovering", "locks work", "unknown host", exitRecovers, func(a *advised) { a.elsewhere("redis", "a..b:6379", "") },
		mend((*advised).right, "no such host", "correct the host in its URL")},
	{"hangs up", "recovering", "locks work", "hangs up", exitRecovers, func(a *advised) {
		a.elsewhere("redis", anotherServer(a.t, func(net.Conn) {}), "")
	}, mend((*advised).right, "takes the connection and hangs up", "look into its log")},
	{"a web server", "recovering", "locks work", "no Redis", exitRecovers, func(a *advised) {
		a.elsewhere("redis", anotherServer(a.t, saysAlways("HTTP/1.1 400 Bad Request\r\n\r\n")), "")
	}, mend((*advised).right, "is no Redis", "correct its URL")},
	{"a web server that answers without a header", "recovering", "locks work", "no Redis", exitRecovers, func(a *advised) {
		a.elsewhere("redis", anotherServer(a.t, saysAlways("<!DOCTYPE HTML>\n")), "")
	}, mend((*advised).right, "is no Redis", "correct its URL")},
	{"errors that nobody knows", "recovering", "locks work", "other", exitRecovers, func(a *advised) {
		a.elsewhere("redis", anotherServer(a.t, saysAlways("-ERR the moon is full\r\n")), "")
	}, mend((*advised).right, "the moon is full", "do what the error says")},
	{"INFO hidden", "recovering", "locks work", "hidden", exitRecovers, func(a *advised) {
		a.elsewhere("redis", quorumtest.Hiding(a.t, a.servers[2].Addr(), "run_id"), "")
	}, mend((*advised).right, "run_id", "name the redis-server itself")},
	{"no such database", "recovering", "locks work", "database", exitRecovers, func(a *advised) {
		a.elsewhere("redis", a.servers[2].Addr()+"/99", "")
	},
		mend((*advised).right, "correct the database in its URL")},
	{"a script without end", "recovering", "locks work", "busy", exitRecovers, func(a *advised) {
		setting("lua-time-limit", "10")(a)
		script := direct(a.t, a.urls[2])
		var ends sync.WaitGroup
		ends.Go(func() { _ = script.Eval(context.Background(), "while true do end", nil).Err() })
		a.t.Cleanup(ends.Wait)
		eventually(a.t, "it is busy", func() bool {
			err := direct(a.t, a.urls[2]).Ping(a.t.Context()).Err()
			return err != nil && strings.HasPrefix(err.Error(), "BUSY")
		})
	}, mend(func(a *advised) { must(a.t, direct(a.t, a.urls[2]).ScriptKill(a.t.Context()).Err()) }, "busy with a script", "end that script")},
	{"loads its data", "recovering", "locks work", "loading", exitRecovers, func(a *advised) {
		s := start(a.t, localredis.Config{Args: []string{"--enable-debug-command", "yes", "--rdbcompression", "no", "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"}})
		a.with(s)
		c := direct(a.t, s.URL())
		for i := range 300 {
			must(a.t, c.Set(a.t.Context(), fmt.Sprint("filler", i), strings.Repeat("x", 2000), 0).Err())
		}
		var ends sync.WaitGroup
		ends.Go(func() { _ = c.Do(context.Background(), "debug", "reload").Err() })
		a.t.Cleanup(ends.Wait)
		eventually(a.t, "it loads", func() bool {
			err := direct(a.t, s.URL()).Ping(a.t.Context()).Err()
			return err != nil && strings.HasPrefix(err.Error(), "LOADING")
		})
	}, mend(func(a *advised) {
		eventually(a.t, "it has loaded", func() bool { return direct(a.t, a.urls[2]).Ping(a.t.Context()).Err() == nil })
		a.since = time.Now()
		if again := a.status(); again.ExitCode != exitOK {
			a.obey(again.Text, "status")
		}
	}, "loads its data", "wait until it has loaded them")},
	{"record of another version", "bad record", "bad record", "protocol", exitRefused, func(a *advised) {
		must(a.t, direct(a.t, a.urls[2]).HSet(a.t.Context(), protocol.RecordKey, "state", "99|1.a|b|V").Err())
	}, func(a *advised, s *statusJSON) {
		wantSaid(a.t, s.Text, "another protocol: 99", "use one version on all clients")
		must(a.t, direct(a.t, a.urls[2]).Del(a.t.Context(), protocol.RecordKey).Err()) // which the runbook of that says
		again := a.status()
		a.obey(again.Text, "status")
	}},
	{"protected mode", "recovering", "locks work", "protected", exitRecovers, func(a *advised) {
		host := otherAddress(a.t)
		setting("bind", "0.0.0.0")(a)
		setting("protected-mode", "yes")(a)
		_, port, _ := net.SplitHostPort(a.servers[2].Addr())
		a.elsewhere("redis", net.JoinHostPort(host, port), "")
	}, mend(func(a *advised) {
		setting("requirepass", "secret")(a)
		a.t.Cleanup(func() {
			c := direct(a.t, a.urls[2])
			_ = c.ConfigSet(context.Background(), "requirepass", "").Err()
			_ = c.ConfigSet(context.Background(), "bind", "127.0.0.1").Err()
		})
		a.urls[2] = strings.Replace(a.urls[2], "redis://", "redis://:secret@", 1)
	}, "protected mode", "give its default user a password")},

	withTLS("TLS port without TLS", "TLS missing", func(a *advised, s *quorumtest.Secure) { a.elsewhere("redis", s.Addrs[0], "") },
		"speaks TLS", "write rediss://"),
	withTLS("authority not trusted", "certificate", func(a *advised, s *quorumtest.Secure) {
		a.elsewhere("rediss", s.Addrs[0], "&"+quorumtest.Params(s.Cert, s.Key, ""))
	}, "not trusted here", "trust its authority"),
	withTLS("no certificate of the client", "client certificate", func(a *advised, s *quorumtest.Secure) {
		a.elsewhere("rediss", s.Addrs[0], "&"+quorumtest.Params("", "", s.CA))
	}, "certificate of the client", "cert=FILE&key=FILE"),
	withTLS("old TLS", "TLS refused", func(a *advised, s *quorumtest.Secure) {
		cert, key := s.Issue(quorumtest.TLSName, time.Now().Add(time.Hour))
		pair, err := tls.LoadX509KeyPair(cert, key)
		must(a.t, err)
		old := anotherServer(a.t, func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}).Handshake() //nolint:gosec // that is the fault
		})
		a.elsewhere("rediss", old, "&"+quorumtest.Params(s.Cert, s.Key, s.CA))
	}, "refuses the TLS handshake", "compare the TLS versions"),
}

// otherAddress is an address of this host that is not its loopback.
func otherAddress(t testing.TB) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Skip("this host has no address but its loopback")
	return ""
}

// Each cause that one master can have: status names it, and who does what the remedy says has all masters back.
func TestAdvice_causes_areTrue(t *testing.T) { play(t, 3, causeScenes) }
