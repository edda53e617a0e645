// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/internal/interrupt"
	"github.com/redlock-go/redlock/internal/termline"
)

// ownNodes checks --nodes and --allow.
func (f *runFlags) ownNodes(cfg *chaos.Config) error {
	if f.nodes == "" || cfg.Driver == chaos.Sim {
		if f.allow != "" {
			return usagef("--allow %s: it is for masters of your own: --nodes", f.allow)
		}
		return nil
	}
	for _, flag := range []string{"driver", "image", "servers", "masters", "persistence"} {
		if f.given(flag) {
			return usagef("--%s does not apply to --nodes: the masters are there already", flag)
		}
	}
	cfg.Nodes = strings.Split(f.nodes, ",")
	if n := len(cfg.Nodes); n < 3 || n > 15 || n%2 == 0 {
		return usagef("--nodes names %d masters: want an odd number from 3 to 15", n)
	}
	for _, node := range cfg.Nodes {
		if _, err := cluster.ParseNode(node); err != nil {
			return usagef("--nodes: %w", err)
		}
	}
	if f.allow != "" {
		cfg.Allowed = strings.Split(f.allow, ",")
	}
	for _, name := range cfg.Allowed {
		if !slices.Contains(chaos.Allowable(), name) {
			return usagef("--allow %s: want some of %s", name, strings.Join(chaos.Allowable(), ", "))
		}
	}
	return nil
}

// redactAll returns a list of URLs without passwords.
func redactAll(nodes string) string {
	if nodes == "" {
		return ""
	}
	all := strings.Split(nodes, ",")
	for i, node := range all {
		all[i] = cluster.Redact(node)
	}
	return strings.Join(all, ",")
}

// announce says what a run will do to --nodes and asks whether it may. Until it returns nil, nothing is written to a master.
func (f *runFlags) announce(ctx context.Context, c *console, cfg chaos.Config) error {
	for _, name := range cfg.Allowed {
		if !mayStrike(cfg, name) {
			return usagef("--allow %s: no nemesis of this run does that: add %s, three-at-once or all to --nemesis", name, name)
		}
	}
	nodes, err := chaos.Inspect(ctx, cfg.Nodes)
	if err != nil {
		return err
	}
	plan(c.err, cfg, nodes)
	if f.yes {
		return nil
	}
	return ask(ctx, os.Stdin, c.err)
}

// mayStrike says whether a nemesis that is allowed strikes in a run: by its own name, or as one of three at once.
func mayStrike(cfg chaos.Config, allowed string) bool {
	return slices.ContainsFunc(cfg.Nemeses, func(n nemesis.Nemesis) bool { return n.Name == allowed || n.Name == "three-at-once" })
}

// plan prints what a run will do.
func plan(w io.Writer, cfg chaos.Config, nodes []chaos.NodeInfo) {
	fmt.Fprintln(w, "This run uses masters that are not its own:")
	for _, n := range nodes {
		fmt.Fprintf(w, "  %s: %s, keys in the database: %d\n", n.Addr, n.Version, n.Keys)
	}
	var names, allowed []string
	for _, n := range cfg.Nemeses {
		if !slices.Contains(cfg.Allowed, n.Name) {
			names = append(names, n.Name)
		}
	}
	for _, n := range nemesis.Table() {
		if slices.Contains(cfg.Allowed, n.Name) && mayStrike(cfg, n.Name) {
			allowed = append(allowed, n.Name+" ("+n.Does+")")
		}
	}
	fmt.Fprintf(w, "For %v and some seconds more it will\n", cfg.Duration)
	fmt.Fprintf(w, "- lock with %d client processes on this host\n", cfg.Clients)
	only := " only"
	if len(allowed) > 0 {
		only = ""
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "- inject faults into these processes and their connections%s: %s\n", only, strings.Join(names, ", "))
	}
	if len(allowed) > 0 {
		fmt.Fprintf(w, "- inject faults into the masters, as --allow says: %s\n", strings.Join(allowed, ", "))
	}
	fmt.Fprintf(w, "- make keys with %s in their names, the key %s and keys %s..., which have no prefix; load scripts into the script cache\n",
		chaos.NodesPrefix(cfg.Seed), chaos.RecordKey, chaos.SignOfLife)
	fmt.Fprintf(w, "- scan the keys of the database about once a second\n")
	fmt.Fprintf(w, "- delete these keys at the end. If it is killed with SIGKILL, %s stays: delete it by hand\n", chaos.RecordKey)
	setting := "setting"
	if slices.Contains(cfg.Allowed, "administer") && mayStrike(cfg, "administer") {
		setting = "other setting"
		fmt.Fprintln(w, "- keep a master busy, which sets its lua-time-limit to 10 until the script ends. If the run is killed with SIGKILL, the script ends by itself,")
		fmt.Fprintln(w, "  a few TTLs and seconds later, and the master puts the setting back. SCRIPT KILL ends it at once")
	}
	fmt.Fprintf(w, "It writes no other key, and changes no %s of a master.\n", setting)
}

// ask asks for a yes on a terminal. An end of ctx is a no.
func ask(ctx context.Context, in *os.File, out io.Writer) error {
	if !termline.IsTerminal(in) {
		return usagef("--nodes: standard input is no terminal to ask at: give --yes if the run may do this")
	}
	return agreed(ctx, in, out)
}

// agreed is ask at a terminal.
func agreed(ctx context.Context, in io.Reader, out io.Writer) error {
	if !interrupt.Confirmed(ctx, in, out, "Go on? [y/N] ") {
		return cmp.Or(ctx.Err(), errors.New("nothing was done"))
	}
	return nil
}
