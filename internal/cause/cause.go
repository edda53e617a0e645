// SPDX-License-Identifier: Apache-2.0

// Package cause says why one master does not answer or does not vote, and what helps. The commands and the errors of programs
// have it from here, so that they never contradict each other.
package cause

import (
	"errors"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Cause is what is wrong with one master.
type Cause struct {
	Word   string // names the cause for programs that read --json, and never changes
	Text   string // follows the master's name; {error} is what the error says
	Remedy string // what to do
}

// refusals are the causes of masters that answer, and do not do what they are asked.
var refusals = []string{"same master", "sentinel password", "password", "rights", "replica", "eviction", "hidden", "memory", "disk", "replicas", "clients", "protected", "loading", "busy", "database", "cluster"}

// Refuses reports whether err, which is an error of one master, is the answer of a master that runs. Who hears of such a master that
// it is silent restarts it, and that empties it.
func Refuses(err error) bool { return err != nil && slices.Contains(refusals, Of(err).Word) }

// A rule is a cause, and the errors that it explains: those that wrap one of errs, and have one of texts if there are texts.
type rule struct {
	Cause
	errs  []error
	texts []string
}

const errorHere = "{error}"

// rules are in their order: the first one that explains an error does. What an error says of the server goes before what it
// says of the connection.
var rules = []rule{
	{Cause{"same master", "is in the list twice: {error}", "name it once"}, nil, []string{"same master"}},
	{Cause{"sentinel password", "cannot be found, because its sentinels deny the user: {error}",
		"correct sentinel_username and sentinel_password in its URL"},
		[]error{protocol.ErrDenied}, []string{noSentinel}},
	{Cause{"password", "refuses the user or the password (WRONGPASS, NOAUTH)", "correct the user and the password in its URL"},
		[]error{protocol.ErrDenied}, []string{"WRONGPASS", "NOAUTH", "invalid password"}},
	{Cause{"rights", "denies the user a right (NOPERM), or lacks a command: {error}",
		"grant it to the lock's user, or take its rename-command out of redis.conf: docs/operations.md has the list of rights"},
		[]error{protocol.ErrDenied}, nil},
	{Cause{"replica", "is a replica", "name its master instead, or run REPLICAOF NO ONE there if it has none"}, []error{protocol.ErrReplica}, nil},
	{Cause{"eviction", "may evict locks", "run CONFIG SET maxmemory-policy noeviction there, and write it into its configuration"},
		[]error{protocol.ErrEviction}, nil},
	{Cause{"hidden", "does not tell what the lock must know: {error}", "name the redis-server itself, not a proxy or a service that hides it"},
		[]error{protocol.ErrHidden}, nil},
	{Cause{"memory", "refuses writes: its memory is full (OOM)", "find what fills its memory, or raise maxmemory"},
		[]error{protocol.ErrNoWrites}, []string{"OOM "}},
	{Cause{"disk", "refuses writes: it cannot write to its disk (MISCONF)", "look into its log, and make room on its disk"},
		[]error{protocol.ErrNoWrites}, []string{"MISCONF "}},
	{Cause{"replicas", "refuses writes: its replicas are gone (NOREPLICAS)", "start its replicas, or lower min-replicas-to-write"},
		[]error{protocol.ErrNoWrites}, nil},
	{Cause{"record", "has a record that cannot be read: {error}", "do what the line about it says"}, []error{protocol.ErrRecord}, nil},
	{Cause{"protocol", "has a record of another version of this library: {error}", "use one version on all programs"}, []error{protocol.ErrProtocol}, nil},
	{Cause{"TLS file", "is not asked, because {error}", "correct that file on this host; it is read again at the next try"},
		[]error{protocol.ErrTLS}, []string{"the TLS file "}},
	{Cause{"certificate", "shows a TLS certificate that is not trusted here: {error}",
		"trust its authority (ca=FILE in its URL, or --tls-ca FILE), or correct the host in its URL (or server_name)"},
		[]error{protocol.ErrTLS}, []string{"x509:", "verify certificate"}},
	{Cause{"client certificate", "wants a TLS certificate of the client that it trusts: {error}",
		"give the client one that its authority signed: cert=FILE&key=FILE in its URL, or --tls-cert and --tls-key"},
		nil, clientCertificateAlerts},
	{Cause{"TLS refused", "refuses the TLS handshake: {error}",
		"if it wants a certificate of the client, give one: cert=FILE&key=FILE in its URL, or --tls-cert and --tls-key; else compare the TLS versions and ciphers"},
		[]error{protocol.ErrTLS}, []string{"remote error: tls:"}},
	{Cause{"TLS", "does not answer the TLS handshake", "if it speaks no TLS, write redis:// and not rediss:// in its URL"},
		[]error{protocol.ErrTLS}, nil},
	{Cause{"TLS missing", "speaks TLS", "write rediss:// and not redis:// in its URL"}, []error{protocol.ErrSpeaksTLS}, nil},
	{Cause{"sentinels", "cannot be found: {error}", "start its sentinels, or correct their addresses and the name of the master in its URL"}, nil, []string{noSentinel}},
	{Cause{"clients", "has the max number of clients, and takes no more", "raise its maxclients, or end programs that keep connections"},
		nil, []string{"max number of clients"}},
	{Cause{"protected", "is in protected mode, and takes no clients of other hosts", "give its default user a password"},
		nil, []string{"DENIED Redis is running in protected mode", "protected mode"}},
	{Cause{"loading", "loads its data", "wait until it has loaded them"}, nil, []string{"LOADING "}},
	{Cause{"busy", "is busy with a script or a command of another program", "end that script or command"}, nil, []string{"BUSY "}},
	{Cause{"database", "does not have this database", "correct the database in its URL, or raise databases in its configuration"},
		nil, []string{"DB index is out of range", "SELECT is not allowed"}},
	{Cause{"cluster", "does not serve its slot now: {error}", "wait for the cluster, or mend it"}, nil, []string{"MOVED ", "ASK ", "CLUSTERDOWN", "TRYAGAIN", "redis-cluster://"}},
	{Cause{"no Redis", "answers, and is no Redis: {error}", "correct its URL"}, nil, []string{"can't parse", "redis: invalid", "HTTP/"}},
	{Cause{"unknown host", "is out of reach (no such host)", "correct the host in its URL, or mend the DNS"}, nil, []string{"no such host"}},
	{Cause{"no server", "is out of reach (connection refused)", membership.StartIt}, nil, []string{"connection refused", noSocket}},
	{Cause{"hangs up", "takes the connection and hangs up", "look into its log; if it speaks TLS, write rediss:// in its URL"},
		nil, []string{"EOF", "connection reset", "broken pipe"}},
	{Cause{"stalled", "has not answered in time", "look whether it is stopped or overloaded, or the network slow"},
		[]error{protocol.ErrStalled}, nil},
	{Cause{"queue", "is not asked: {error}", "lock with fewer callers at once, or make the nodes with a larger QueueLimit in node.Config"},
		[]error{protocol.ErrBusy}, nil},
	{Cause{"no answer", "is out of reach (no answer)", membership.StartIt + "; if it runs, mend the network"},
		nil, []string{"i/o timeout", "deadline exceeded", "no route to host", "network is unreachable"}},
	{Cause{"clock", "has a clock that jumped", "see to its clock: docs/operations.md, A clock jumped"}, []error{protocol.ErrClock}, nil},
	{Cause{"other", "cannot be used: {error}", "do what the error says, or look into the log of this master"}, nil, nil},
}

// clientCertificateAlerts are the alerts of TLS by which a server says what is wrong with the certificate of the client, in the words of
// crypto/tls.
var clientCertificateAlerts = []string{"tls: certificate required", "tls: bad certificate", "tls: unknown certificate", "tls: expired certificate",
	"tls: revoked certificate", "tls: unsupported certificate", "tls: access denied"}

// noSentinel begins the error of package node where no sentinel names the master. What follows is about the sentinels.
const noSentinel = "no sentinel names the master: "

// noSocket is the error of a socket of this host that is not there.
const noSocket = "connect: no such file or directory"

// Of is the cause of err, which is an error of one master.
func Of(err error) Cause {
	for i := range rules {
		if r := &rules[i]; err != nil && r.explains(err) {
			c := r.Cause
			if strings.Contains(c.Text, errorHere) {
				c.Text = strings.ReplaceAll(c.Text, errorHere, detail(err))
			}
			if strings.Contains(err.Error(), noSocket) {
				c.Text = strings.Replace(c.Text, "(connection refused)", "(no such socket)", 1)
			}
			return c
		}
	}
	return Cause{}
}

// All are the causes that Of can return, for the table of the docs.
func All() (all []Cause) {
	for i := range rules {
		all = append(all, rules[i].Cause)
	}
	return all
}

func (r *rule) explains(err error) bool {
	is := len(r.errs) == 0
	for _, e := range r.errs {
		is = is || errors.Is(err, e)
	}
	if len(r.texts) == 0 || !is {
		return is
	}
	text := err.Error()
	for _, t := range r.texts {
		if strings.Contains(text, t) {
			return true
		}
	}
	return false
}

// Said is what the master or the network said, without the prefixes that the layers added, and without line breaks.
func Said(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	var on *protocol.Error
	if errors.As(err, &on) {
		text = strings.Join(strings.Fields(on.Err.Error()), " ")
	}
	for _, layer := range []string{"master unreachable: ", "access denied: ", "the TLS handshake failed: ", "the master refuses writes: ", "node: "} {
		text = strings.ReplaceAll(text, layer, "")
	}
	return text
}

// detail is what Said says, without the remedies.
func detail(err error) string {
	text, _, _ := strings.Cut(Said(err), " (grant it")
	text, _, _ = strings.Cut(text, " (check sentinel")
	text, _, _ = strings.Cut(text, " (lock with")
	if len(text) > detailMax {
		text = strings.ToValidUTF8(text[:detailMax], "") + "..."
	}
	return text
}

// detailMax bounds what is quoted: a list of rights may be long.
const detailMax = 120
