// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/fence/internal/fencetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheck_equal_accepted(t *testing.T) {
	for _, token := range []int64{1, 5, fence.MaxToken} {
		if err := fence.Check("account", token, token); err != nil {
			t.Error(err)
		}
	}
}

func TestCheck_largerSeen_staleErrorSaysAll(t *testing.T) {
	err := fence.Check("account", 5, 6)
	if !errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrNotPresented) {
		t.Errorf("got %v", err)
	}
	var stale *fence.StaleError
	ok := errors.As(err, &stale)
	if !ok || *stale != (fence.StaleError{Resource: "account", Token: 5, Seen: 6}) {
		t.Errorf("got %#v", err)
	}
}

func TestCheck_smallerSeen_notPresented(t *testing.T) {
	for _, seen := range []int64{0, 4} {
		if err := fence.Check("account", 5, seen); !errors.Is(err, fence.ErrNotPresented) || errors.Is(err, fence.ErrStale) {
			t.Errorf("seen %d: %v", seen, err)
		}
	}
}

func TestCheck_badInput_namedInTheError(t *testing.T) {
	for token, want := range map[int64]string{
		0: "token 0 ", -1: "token -1 ", fence.MaxToken + 1: "token 9007199254740992 ", math.MinInt64: "token -9223372036854775808 ",
	} {
		// seen equal to the token: validity must not hang on the comparison.
		if err := fence.Check("account", token, token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("token %d: %v", token, err)
		}
	}
	if err := fence.Check("", 5, 5); err == nil {
		t.Error("empty resource accepted")
	}
}

// model is a resource that does by hand what the package doc says.
type model struct {
	seen  int64
	value string
}

func (m *model) Present(token int64) error {
	m.seen = max(m.seen, token)
	return fence.Check("model", token, m.seen)
}

func (m *model) Read() (string, error) { return m.value, nil }

func (m *model) Write(token int64, value string) error {
	if err := fence.Check("model", token, m.seen); err != nil {
		return err
	}
	return m.Overwrite(value)
}

func (m *model) Overwrite(value string) error {
	m.value = value
	return nil
}

func TestModel_randomInterleavings_noLostUpdate(t *testing.T) {
	fencetest.Verify(t, 5_000, func(*testing.T, int) fencetest.Register { return &model{} })
}
