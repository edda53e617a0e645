// SPDX-License-Identifier: Apache-2.0

package cause

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Errors as servers, go-redis and the network word them: for each cause one or more.
var errorsOf = []struct {
	word string
	err  error
}{
	{"same master", errors.New("a and b are the same master (run_id x): name it once")},
	{"sentinel password", fmt.Errorf("no sentinel names the master: sentinel a:1: %w: NOAUTH Authentication required. (check sentinel_username", protocol.ErrDenied)},
	{"sentinels", errors.New(`no sentinel names the master: sentinel a:1: knows no master "mine"`)},
	{"sentinels", errors.New("no sentinel names the master: sentinel a:1: dial tcp 127.0.0.1:1: connect: connection refused")},
	{"sentinels", errors.New("no sentinel names the master: sentinel a:1: DENIED Redis is running in protected mode because")},
	{"password", fmt.Errorf("%w: %w", protocol.ErrDenied, errors.New("WRONGPASS invalid username-password pair or user is disabled"))},
	{"password", fmt.Errorf("%w: %w", protocol.ErrDenied, errors.New("NOAUTH Authentication required"))},
	{"rights", fmt.Errorf("%w: node: this user may not run, or this master lacks, hset on redlock:check (grant it to the lock's user)", protocol.ErrDenied)},
	{"rights", fmt.Errorf("%w: ERR unknown command 'eval', with args beginning with: 'return' (grant it to the lock's user)", protocol.ErrDenied)},
	{"replica", fmt.Errorf("%w: role is \"slave\"", protocol.ErrReplica)},
	{"eviction", fmt.Errorf("%w: allkeys-lru", protocol.ErrEviction)},
	{"hidden", fmt.Errorf("%w: run_id", protocol.ErrHidden)},
	{"memory", fmt.Errorf("%w: OOM command not allowed when used memory > 'maxmemory'", protocol.ErrNoWrites)},
	{"disk", fmt.Errorf("%w: MISCONF Redis is configured to save RDB snapshots", protocol.ErrNoWrites)},
	{"replicas", fmt.Errorf("%w: NOREPLICAS Not enough good replicas to write", protocol.ErrNoWrites)},
	{"record", fmt.Errorf("%w: rubbish", protocol.ErrRecord)},
	{"protocol", fmt.Errorf("%w: 3", protocol.ErrProtocol)},
	{"TLS refused", fmt.Errorf("%w: remote error: tls: handshake failure", protocol.ErrTLS)},
	{"TLS file", fmt.Errorf("%w: the TLS file %q (ca) cannot be read: no such file or directory", protocol.ErrTLS, "ca.pem")},
	{"client certificate", fmt.Errorf("%w: remote error: tls: unknown certificate authority", protocol.ErrTLS)},
	{"certificate", fmt.Errorf("%w: tls: failed to verify certificate: x509: certificate signed by unknown authority", protocol.ErrTLS)},
	{"client certificate", errors.New("remote error: tls: certificate required")},
	{"TLS", fmt.Errorf("%w: %w", protocol.ErrTLS, context.DeadlineExceeded)},
	{"TLS missing", fmt.Errorf("%w: read: connection reset by peer", protocol.ErrSpeaksTLS)},
	{"clients", errors.New("ERR max number of clients reached: write: broken pipe")},
	{"protected", errors.New("DENIED Redis is running in protected mode because")},
	{"loading", errors.New("LOADING Redis is loading the dataset in memory")},
	{"busy", errors.New("BUSY Redis is busy running a script")},
	{"database", errors.New("ERR DB index is out of range")},
	{"cluster", errors.New("CLUSTERDOWN Hash slot not served")},
	{"no Redis", errors.New(`redis: can't parse map reply: "HTTP/1.1 400 Bad"`)},
	{"no Redis", errors.New(`redis: invalid reply: "<!DOCTYPE HTML>\n"`)},
	{"unknown host", errors.New("dial tcp: lookup nosuch.invalid: no such host")},
	{"no server", errors.New("dial tcp 127.0.0.1:1: connect: connection refused")},
	{"no server", errors.New("dial unix /tmp/s: connect: no such file or directory")},
	{"hangs up", errors.New("EOF")},
	{"stalled", protocol.ErrStalled},
	{"queue", fmt.Errorf("%w: 16384 operations wait for this master, and QueueLimit is 16384 (lock with fewer callers)", protocol.ErrBusy)},
	{"no answer", errors.New("dial tcp 10.0.0.1:6379: i/o timeout")},
	{"clock", protocol.ErrClock},
	{"other", errors.New("ERR whatever")},
}

// Each cause is found by the errors that it explains, is short, and is said once. Only a master that does not answer at all is out
// of reach: who starts the others anew empties them.
func TestOf_eachCause(t *testing.T) {
	shown := map[string]bool{}
	for _, test := range errorsOf {
		err := &protocol.Error{Node: "a:1", Err: fmt.Errorf("%w: %w", protocol.ErrDown, test.err)}
		got := Of(err)
		if got.Word != test.word || strings.Contains(got.Text, "{") || strings.Contains(got.Text, "node: ") {
			t.Errorf("%v: %+v, want %s", err, got, test.word)
		}
		shown[test.word] = true
	}
	texts := map[string]bool{}
	for _, c := range All() {
		away := c.Word == "no server" || c.Word == "unknown host" || c.Word == "no answer"
		if strings.Contains(c.Text, "out of reach") != away || strings.Contains(c.Remedy, "start the master") && !away {
			t.Errorf("%+v: starts a master that answers", c)
		}
		if !shown[c.Word] || texts[c.Text] || c.Remedy == "" || len(c.Text)+len(c.Remedy) > 200 {
			t.Errorf("%+v: without an error (%v), said twice (%v), or long", c, !shown[c.Word], texts[c.Text])
		}
		texts[c.Text] = true
	}
	if Of(nil) != (Cause{}) {
		t.Error("no error has a cause")
	}
}

// A socket that is missing refused no connection.
func TestOf_missingSocket_saysThat(t *testing.T) {
	if c := Of(errors.New("dial unix /tmp/s: connect: no such file or directory")); c.Text != "is out of reach (no such socket)" {
		t.Error(c.Text)
	}
}

// A long error is cut, and keeps its beginning.
func TestOf_longError_cut(t *testing.T) {
	err := &protocol.Error{Node: "a:1", Err: fmt.Errorf("%w: node: this user may not run, or this master lacks, %s", protocol.ErrDenied, strings.Repeat("hset on redlock:check, ", 40))}
	if c := Of(err); len(c.Text) > 200 || !strings.Contains(c.Text, "this user may not run, or this master lacks, hset on redlock:check") {
		t.Errorf("%d: %s", len(c.Text), c.Text)
	}
}

// Each word that says that a master refuses is the word of a cause.
func TestRefuses_isOfCauses(t *testing.T) {
	for _, word := range refusals {
		if !slices.ContainsFunc(All(), func(c Cause) bool { return c.Word == word }) {
			t.Errorf("no cause has the word %q", word)
		}
	}
	if Refuses(nil) || Refuses(errors.New("connection refused")) || !Refuses(fmt.Errorf("%w: NOAUTH", protocol.ErrDenied)) {
		t.Error("a master that runs is taken for one that does not, or the other way round")
	}
}
