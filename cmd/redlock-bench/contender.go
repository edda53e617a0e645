// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/crowd"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/redlock"
)

// contender is the hidden command crowd.Contender. On its standard input come a task and, when all processes are ready, a word to begin; to its
// standard output go a word that it is ready, and what it saw; each is one value of JSON. It ends when its input does, so that it never outlives
// the program that started it, however that ended. (The task is no argument: a URL may hold a password, and arguments are for all to see.)
type contender struct{}

func (contender) define(*flag.FlagSet) {}
func (contender) check() error         { return nil }

func (contender) run(ctx context.Context, o output) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(o.out)
	var t crowd.Task
	if err := in.Decode(&t); err != nil {
		return usageError{err}
	}
	s := setup{ttl: t.TTL, listTTL: t.MaxTTL}
	opts := s.options(len(t.Nodes))
	if t.Fixed {
		opts = append(opts, redlock.WithFixedMasters())
	}
	all, err := t.Crowd(func() (*redlock.Client, error) { return masters.OpenWithin(t.Nodes, opts) })
	if err != nil {
		return err
	}
	defer all.Close()
	var begin string
	if err := errors.Join(out.Encode("ready"), in.Decode(&begin)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	saw, _ := all.Press(ctx, t.Duration)
	return out.Encode(saw)
}
