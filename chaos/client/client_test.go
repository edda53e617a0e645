// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/history"
)

// task is a task whose history is in a new directory.
func task(t *testing.T) Task {
	return Task{
		Name: "c1", Nodes: []string{"redis://127.0.0.1:1"}, Locks: []string{"hot"}, TTL: time.Second, MaxTTL: time.Second, Think: time.Millisecond,
		History: filepath.Join(t.TempDir(), "c1.jsonl"), Header: history.Header{Masters: 3, TTL: time.Second},
	}
}

func line(t *testing.T, task Task) string {
	t.Helper()
	b, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// A client is told of storms and of its end, and says what it does.
func TestServe_wholeLife(t *testing.T) {
	in, harness := io.Pipe()
	told, out := io.Pipe()
	task := task(t)
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(in, out, func(ctx context.Context, s *Session) error {
			if err := s.Ready("tokens"); err != nil {
				return err
			}
			<-s.Storms
			one(s.Thread("1"))
			<-ctx.Done()
			return nil
		})
	}()
	lines := bufio.NewScanner(told)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("it says %q, want %q", lines.Text(), want)
		}
	}
	send := func(s string) {
		t.Helper()
		if _, err := io.WriteString(harness, s); err != nil {
			t.Fatal(err)
		}
	}
	send(line(t, task))
	expect("ready")
	send("storm\n")
	expect("+hot")
	expect("-hot")
	_ = harness.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadFiles(task.History)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.Header.Idle, []string{"tokens"}) {
		t.Errorf("idle are %v", h.Header.Idle)
	}
	var kinds []history.Kind
	for _, op := range h.Ops {
		kinds = append(kinds, op.Kind)
		if op.Client != "c1.1" || op.Lock != "hot" || op.Outcome != history.OK {
			t.Errorf("%+v", op)
		}
	}
	if !slices.Equal(kinds, []history.Kind{history.KindLock, history.KindExtend, history.KindUnlock}) {
		t.Errorf("it recorded %v", kinds)
	}
}

// one takes the lock, extends it and releases it.
func one(t *Thread) {
	end := time.Now().Add(time.Minute)
	t.Lock("hot", func() (Grant, error) { return Grant{Holder: "a", ValidUntil: end}, nil })
	t.Extend("hot", "a", func() (time.Time, error) { return end.Add(time.Minute), nil })
	t.Unlock("hot", "a", func() error { return nil })
}

// started returns a Session that is ready.
func started(t *testing.T) *Session {
	t.Helper()
	s := &Session{Task: task(t), out: io.Discard}
	if err := s.Ready(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.file.Close() })
	return s
}

// What was refused is no claim, and what was not confirmed may have happened.
func TestThread_refusals(t *testing.T) {
	s := started(t)
	th, refused := s.Thread("1"), errors.New("refused")
	if _, ok := th.Lock("hot", func() (Grant, error) { return Grant{}, refused }); ok {
		t.Error("a refused lock was granted")
	}
	th.Lock("hot", func() (Grant, error) { return Grant{Holder: "a", ValidUntil: time.Now().Add(time.Second)}, nil })
	if th.Extend("hot", "a", func() (time.Time, error) { return time.Time{}, refused }) {
		t.Error("a refused extend succeeded")
	}
	th.Unlock("hot", "a", func() error { return refused })
	h, err := history.ReadFiles(s.Task.History)
	if err != nil || th.Err() != nil {
		t.Fatal(err, th.Err())
	}
	var got []history.Outcome
	for _, op := range h.Ops {
		got = append(got, op.Outcome)
	}
	if !slices.Equal(got, []history.Outcome{history.Failed, history.OK, history.Unknown, history.Unknown}) {
		t.Errorf("outcomes %v", got)
	}
}

// A client that is killed while it unlocks has recorded that it claims no more.
func TestThread_unlock_isOnDiskBeforeTheCall(t *testing.T) {
	s := started(t)
	th := s.Thread("1")
	th.Lock("hot", func() (Grant, error) { return Grant{Holder: "a", ValidUntil: time.Now().Add(time.Minute)}, nil })
	th.Unlock("hot", "a", func() error {
		h, err := history.ReadFiles(s.Task.History)
		if err != nil || len(h.Ops) != 2 || h.Ops[1].Kind != history.KindUnlock || h.Ops[1].Return != history.Never {
			t.Errorf("during the call the history has %+v, %v", h.Ops, err)
		}
		return nil
	})
}

func TestServe_badTask_saysWhy(t *testing.T) {
	never := func(context.Context, *Session) error { t.Error("it went to work"); return nil }
	good := task(t)
	for want, change := range map[string]func(*Task){
		"name, history": func(k *Task) { k.Name = "" },
		"no longer":     func(k *Task) { k.MaxTTL = 0 },
	} {
		k := good
		change(&k)
		if err := Serve(strings.NewReader(line(t, k)), io.Discard, never); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for in, want := range map[string]string{"": "--client", "{\n": "task"} {
		if err := Serve(strings.NewReader(in), io.Discard, never); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", in, err, want)
		}
	}
	k := good
	k.History = "/nonexistent/h"
	err := Serve(strings.NewReader(line(t, k)), io.Discard, func(_ context.Context, s *Session) error { return s.Ready() })
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

// The examples of docs/history.md are what this package and the reader of histories take.
func TestPage_examples(t *testing.T) {
	page, err := os.ReadFile("../../docs/history.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1)
	if len(examples) != 2 {
		t.Fatalf("%d examples, want a task and a history", len(examples))
	}
	if _, err := parse(examples[0][1]); err != nil {
		t.Error(err)
	}
	h, err := history.Read("docs/history.md", bytes.NewReader(examples[1][1]))
	if err != nil {
		t.Fatal(err)
	}
	if r := check.Whole(safety.Assumptions(), h); r.Verdict != check.Ok || len(h.Ops) != 4 {
		t.Errorf("%d operations: %s", len(h.Ops), r.Summary)
	}
}
