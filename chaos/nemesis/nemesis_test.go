// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lacks(p cluster.Persistence) func(Nemesis) string {
	return func(n Nemesis) string { return n.Lacks(Have{Persistence: p}) }
}

func TestTable_hasAllOfTheList(t *testing.T) {
	names := map[string]bool{}
	for _, n := range Table() {
		names[n.Name] = true
		if n.Does == "" || !n.Promises.Tokens || (n.strike == nil) != (n.Elsewhere != "") {
			t.Errorf("%s: %+v", n.Name, n)
		}
	}
	for _, name := range history.Nemeses() {
		if !names[name] {
			t.Errorf("no %s", name)
		}
	}
}

// What docs/chaos.md promises under each nemesis is what the harness asks for.
func TestTable_isTheDocs(t *testing.T) {
	docs, err := os.ReadFile("../../docs/chaos.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range Table() {
		holds := "T"
		if n.Promises.Exclusion {
			holds = "X T"
		}
		if row := fmt.Sprintf("\n| %s | %s | %s |", n.Name, holds, n.Does); !strings.Contains(string(docs), row) {
			t.Errorf("no row %q", row)
		}
	}
}

func TestParse_groups_keepTheirPromise(t *testing.T) {
	for _, p := range []cluster.Persistence{cluster.None, cluster.EverySec, cluster.Always} {
		all, err := Parse("all", lacks(p))
		if err != nil {
			t.Fatal(err)
		}
		some, err := Parse("default", lacks(p))
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.ContainsFunc(some, func(n Nemesis) bool { return n.mayBreak() != history.Promises{} })
		if bad || len(some) < 15 || len(all) < len(some)+5 {
			t.Errorf("%q: %d of default, one of which may break a promise: %v; %d of all", p, len(some), bad, len(all))
		}
	}
	one, err := Parse("delete-LOCK, Kill-Minority", lacks(cluster.None))
	if err != nil || len(one) != 2 || one[0].Name != "delete-lock" || one[0].Promises != tokens {
		t.Errorf("got %v, %v", one, err)
	}
}

func TestParse_bad_saysWhy(t *testing.T) {
	for in, want := range map[string]string{"": "chaos list", "meteor": "chaos list", "kill-minority,kill-minority": "twice", "stall-disk": "--persistence", "rolling-upgrade": "--other", "suspend-client": "--driver sim"} {
		if _, err := Parse(in, lacks(cluster.None)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", in, err, want)
		}
	}
}

// Invariant: no node has two faults, and no more nodes forget at once than leave a quorum, whatever is claimed in which order.
func TestTarget_claims_leaveAQuorumThatRemembers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	target := &Target{}
	for i := range 5 {
		target.Nodes = append(target.Nodes, NewNode(fmt.Sprint("m", i+1), nil))
	}
	var claims [][]*Node
	refused, granted := 0, 0
	for range 10_000 {
		switch r.IntN(4) {
		case 0, 1:
			forgetful := r.IntN(2) == 0
			if nodes, err := target.claim(r, 1+r.IntN(3), forgetful); err == nil {
				claims = append(claims, nodes)
				granted++
			} else {
				refused++
			}
		case 2:
			if len(claims) > 0 {
				i := r.IntN(len(claims))
				target.unclaim(claims[i])
				claims = slices.Delete(claims, i, i+1)
			}
		case 3:
			target.Voting(target.Nodes[r.IntN(5)])
		}
		seen := map[*Node]bool{}
		for _, n := range slices.Concat(claims...) {
			if seen[n] {
				t.Fatalf("%s has two faults", n.Name())
			}
			seen[n] = true
		}
		forgot := 0
		for _, n := range target.Nodes {
			if n.forgot {
				forgot++
			}
		}
		if forgot > 2 {
			t.Fatalf("%d of 5 have forgotten", forgot)
		}
	}
	if granted < 1000 || refused < 1000 {
		t.Errorf("%d granted and %d refused prove little", granted, refused)
	}
}

// Where a majority has forgotten, tokens rest on clocks alone: none is wrong then, and no majority forgets while one is.
func TestTarget_wrongClocksAndForgottenMajorities_neverMeet(t *testing.T) {
	target := &Target{}
	for i := range 5 {
		target.Nodes = append(target.Nodes, NewNode(fmt.Sprint("m", i), nil))
	}
	seed := uint64(0)
	begin := func() *strike {
		seed++
		return &strike{ctx: t.Context(), target: target, rand: rand.New(rand.NewPCG(seed, 0))}
	}
	end := func(s *strike) {
		for i := len(s.heals) - 1; i >= 0; i-- {
			if err := s.heals[i](); err != nil {
				t.Fatal(err)
			}
		}
	}
	clocks := begin()
	if _, err := clocks.takeClocks(1); err != nil {
		t.Fatal(err)
	}
	taken := map[bool]int{} // how many majorities of four at most, for a fifth master is busy
	for range 20 {
		for _, forget := range []bool{true, false} {
			s := begin()
			if _, err := s.takeMajority(forget); err == nil {
				taken[forget]++
			}
			end(s)
		}
	}
	if taken[true] > 0 || taken[false] == 0 {
		t.Errorf("while a clock is wrong %d majorities forget, and %d are killed with their data", taken[true], taken[false])
	}
	end(clocks)
	wipe := begin()
	nodes, err := wipe.takeMajority(true)
	if err != nil {
		t.Fatal(err)
	}
	end(wipe)
	for i, n := range nodes {
		if later := len(nodes) - i; later > target.tolerated() { // so many do not vote yet
			clocks = begin()
			if _, err := clocks.takeClocks(1); !errors.Is(err, errBusy) {
				t.Errorf("a clock goes wrong while %d have not learnt their counters: %v", later, err)
			}
			end(clocks)
		}
		target.Voting(n)
	}
	clocks = begin()
	if _, err := clocks.takeClocks(1); err != nil {
		t.Errorf("all vote again: %v", err)
	}
	end(clocks)
}

// A fault that is several suspends what one of them may break, and no more.
func TestJoin_parts_theSumOfThem(t *testing.T) {
	exclusion := history.Promises{Exclusion: true}
	kill := history.Fault{Nemesis: "kill-minority", End: 5}
	step := history.Fault{Nemesis: "step-clock", End: 5, MayBreak: exclusion}
	half := history.Fault{Nemesis: "skew-clocks", End: 5, MayBreak: exclusion, Error: "no such file"}
	stuck := history.Fault{Nemesis: "freeze-masters", End: history.Never, Detail: "not healed: timeout"}
	for name, test := range map[string]struct {
		parts    []history.Fault
		mayBreak history.Promises
		detail   string
		healed   bool
		err      string
	}{
		"none struck":       {nil, history.Promises{}, "", true, errBusy.Error()},
		"harmless":          {[]history.Fault{kill}, history.Promises{}, "kill-minority", true, ""},
		"one is harmful":    {[]history.Fault{kill, step}, exclusion, "kill-minority, step-clock", true, ""},
		"half applied":      {[]history.Fault{kill, half}, exclusion, "kill-minority", true, ""},
		"only half applied": {[]history.Fault{half}, exclusion, "", true, "skew-clocks: no such file"},
		"one is not healed": {[]history.Fault{stuck}, history.Promises{}, "freeze-masters", false, ""},
	} {
		s := &strike{fault: history.Fault{MayBreak: exclusion}}
		err := s.join(test.parts)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if said != test.err || s.fault.MayBreak != test.mayBreak || s.fault.Detail != test.detail || (s.unhealed == nil) != test.healed {
			t.Errorf("%s: error %q, %+v, unhealed %v", name, said, s.fault, s.unhealed)
		}
	}
}
