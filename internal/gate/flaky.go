// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// spinWord makes this program a busy loop.
const spinWord = "spin"

func spin() {
	for i := 0; ; i++ {
		if i%(1<<28) == 0 && os.Getppid() == 1 {
			os.Exit(0) // its gate is gone
		}
	}
}

// flaky runs a tier several times beside busy loops, and lists what was ever red.
func (g *gate) flaky(ctx context.Context, o options) (green bool, err error) {
	groups, err := g.groups(o.tier)
	if err != nil {
		return false, err
	}
	dir := o.dir
	if dir == "" {
		dir = filepath.Join(g.root, "flaky")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	stop, err := busy(o.load)
	if err != nil {
		return false, err
	}
	defer stop()
	out := g.res.out
	reds := map[string][]string{} // logs by test
	for i := 1; i <= o.n && ctx.Err() == nil; i++ {
		log := filepath.Join(dir, fmt.Sprintf("run-%02d.log", i))
		file, err := os.Create(log)
		if err != nil {
			return false, err
		}
		g.res = newResults(file)
		err = g.runAll(ctx, groups)
		g.res.print(o.tier)
		_ = file.Close()
		if err != nil {
			return false, err
		}
		red := g.res.reds()
		verdict := "green"
		if len(red) > 0 {
			verdict = "RED: " + strings.Join(red, ", ")
		}
		again := 0
		for _, s := range g.res.stages {
			again += s.again
		}
		fmt.Fprintf(out, "run %d of %d beside %d busy loops: %s, %s, %d tried again\n", i, o.n, o.load, brief(time.Since(g.res.began)), verdict, again)
		for _, name := range red {
			reds[name] = append(reds[name], log)
		}
	}
	var names []string
	for name := range reds {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(out, "red %d of %d  %s\n    %s\n", len(reds[name]), o.n, name, strings.Join(reds[name], " "))
	}
	return len(reds) == 0, ctx.Err()
}

// busy starts n processes that compute until stop is called.
func busy(n int) (stop func(), err error) {
	var loops []*exec.Cmd
	stop = func() {
		for _, l := range loops {
			_ = l.Process.Kill()
			_ = l.Wait()
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for range n {
		l := exec.Command(self, spinWord)
		if err := l.Start(); err != nil {
			stop()
			return nil, err
		}
		loops = append(loops, l)
	}
	return stop, nil
}
