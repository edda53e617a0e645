// SPDX-License-Identifier: Apache-2.0

package votesmodel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Real is a real master, or a stand-in, that Replay drives. A method returns an error only if there was no reply.
type Real interface {
	// Call has a connection that knows that record state send the ops at once.
	Call(c Call) ([]protocol.Reply, error)
	// Said returns what was published since the last call, in its order: on the clients' channels, and on those of
	// Redisson's that a client listens to.
	Said() ([]Message, error)
	// Keys returns all keys. Those of the record are without the fields latest and rests.
	Keys() (Keys, error)
	// Delete removes keys, SetHash sets one field, and Expire gives a key that TTL.
	Delete(keys ...string) error
	SetHash(key, field, value string) error
	Expire(key string, ttl time.Duration) error
	// Listen has a client of Redisson's subscribe its channel of the lock, or unsubscribe it.
	Listen(on bool) error
	// Hear subscribes the channel of a client, or unsubscribes it.
	Hear(client string, on bool) error
}

// DivergenceError says that a master did not do what the model does.
type DivergenceError struct {
	Path Path   // up to and with the step in question
	What string // differs
	Got  Step   // that step with what the master made of it
}

// Error tells what the master did, then the path as a story.
func (e *DivergenceError) Error() string {
	return fmt.Sprintf("votesmodel: the last step differs in its %s: the master did this: %v\nand has\n%v%s", e.What, e.Got, e.Got.Keys, e.Path)
}

// slack is how much less than the model's a TTL may be: the model's time stands still.
const slack = 20 * time.Second

// Replay executes a path against a new master, and compares replies, messages and keys after each step. It returns nil,
// a *DivergenceError for the first that differs, or an error of the master.
func Replay(w World, p Path, at Real) error {
	for i, step := range p {
		got, err := deliver(w, step, at)
		if err != nil {
			return fmt.Errorf("votesmodel: step %d, %v: %w", i+1, step, err)
		}
		if what := differs(&got, &step); what != "" {
			return &DivergenceError{p[:i+1], what, got}
		}
	}
	return nil
}

// deliver executes one step, and returns it with what the master made of it.
func deliver(w World, step Step, at Real) (got Step, err error) {
	got = step
	got.Replies, got.Said, got.Keys = nil, nil, nil
	switch step.Event {
	case Called:
		if got.Replies, err = at.Call(step.Call); err == nil {
			got.Said, err = at.Said()
		}
	case Expired:
		gone := []string{w.Lock}
		for i := range clients {
			for n := range maxMade {
				gone = append(gone, TimeoutKey(w.Lock, fmt.Sprintf("%s:%d", Client(i), n+1)))
			}
		}
		err = at.Delete(gone...)
	case TimedOut:
		err = at.Delete(TimeoutKey(w.Lock, step.Holder))
	case Rested:
		err = at.Delete(protocol.NewLock(w.Lock, protocol.Plain).Rest)
	case Lapsed:
		err = at.Delete(SignOfLife(step.Client))
	case RedissonListens:
		err = at.Listen(step.On)
	case ClientListens:
		err = at.Hear(step.Client, step.On)
	case RedissonTakes:
		for _, item := range step.Keys[w.Lock].Items {
			field, value, _ := strings.Cut(item, "=")
			err = errors.Join(err, at.SetHash(w.Lock, field, value))
		}
		err = errors.Join(err, at.Expire(w.Lock, fullTTL))
	case StateBecomes:
		err = at.SetHash(protocol.RecordKey, "state", step.State)
	}
	if err == nil {
		got.Keys, err = at.Keys()
	}
	return got, err
}

// differs names what is not the same in two steps, "" if nothing is.
func differs(got, want *Step) string {
	switch {
	case !slices.EqualFunc(got.Replies, want.Replies, sameReply):
		return "replies"
	case !slices.Equal(got.Said, want.Said):
		return "messages"
	case !sameKeys(got.Keys, want.Keys):
		return "keys"
	}
	return ""
}

func near(got, want time.Duration) bool {
	return got <= want && want-got < slack && (got > 0) == (want > 0)
}

func sameReply(a, b protocol.Reply) bool {
	return a.Outcome == b.Outcome && a.Token == b.Token && a.Ticket == b.Ticket && a.Ahead == b.Ahead && a.Foreign == b.Foreign &&
		a.Holder == b.Holder && near(a.Remaining, b.Remaining) && slices.Equal(a.Intact, b.Intact) && stateOf(a.Err) == stateOf(b.Err)
}

// stateOf is the record state of a refusal. Other errors are none that the model has.
func stateOf(err error) string {
	var refused *protocol.RecordStateError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return "state " + refused.Got
	}
	return err.Error()
}

func sameKeys(a, b Keys) bool {
	if len(a) != len(b) {
		return false
	}
	for name, key := range a {
		other, there := b[name]
		if !there || !slices.Equal(key.Items, other.Items) || !near(key.TTL, other.TTL) {
			return false
		}
	}
	return true
}
