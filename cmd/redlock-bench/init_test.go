// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/node"
)

func TestInit_newMasters_voteAndTwiceIsFine(t *testing.T) {
	nodes := startURLs(t, 3)
	list := strings.Join(nodes, ",")
	for range 2 {
		code, stdout, stderr := bench(t, "init", "--nodes", list)
		if code != exitOK || strings.Count(stdout, "  votes\n") != 3 || !strings.Contains(stdout, "3 masters vote, with a maximum TTL of 30s") {
			t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
		}
		tidy(t, stdout)
	}
	before := records(t, nodes)
	code, _, stderr := bench(t, "init", "--nodes", list, "--max-ttl", "5s")
	if code != exitMasters || !strings.Contains(stderr, "another epoch") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("another maximum TTL: exit code %d, stderr %q", code, stderr)
	}
	if after := records(t, nodes); !reflect.DeepEqual(after, before) {
		t.Errorf("the records were %v, are now %v", before, after)
	}
}

// Masters of which some vote: those that do not may have forgotten what they granted.
func TestInit_oneRestarted_leftToRecover(t *testing.T) {
	nodes := startURLs(t, 3)
	list := strings.Join(nodes, ",")
	if code, _, stderr := bench(t, "init", "--nodes", list); code != exitOK {
		t.Fatal(stderr)
	}
	must(t, admin(t, nodes[2]).Del(t.Context(), node.RecordKey).Err())
	code, stdout, stderr := bench(t, "init", "--nodes", list)
	if code != exitMasters || strings.Count(stdout, "  votes\n") != 2 || !strings.Contains(stderr, "only 2 of 3 masters vote") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestInit_masterSilent_error(t *testing.T) {
	nodes := startURLs(t, 2)
	code, _, stderr := bench(t, "init", "--nodes", strings.Join(append(nodes, dead), ","))
	if code != exitMasters || !strings.Contains(stderr, "init: 127.0.0.1:1: ") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
