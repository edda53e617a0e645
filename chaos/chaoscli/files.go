// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/report"
)

// files are the files that a run writes. They are opened before the run, so that a wrong name is reported at once.
type files struct {
	html, history, json string
	opened              map[string]*os.File
}

func (f *files) define(fs *flag.FlagSet) {
	fs.StringVar(&f.html, "html", "", "`FILE` for the report; a run that fails always writes a report")
	fs.StringVar(&f.history, "history", "", "`FILE` for the history, which \"chaos check\" reads; a run that fails always writes a history")
	fs.StringVar(&f.json, "json", "", "`FILE` for the result; - is standard output")
}

// open opens the files. It refuses one that is an input, or that another flag names: what it holds, or the other flag writes, would be lost.
func (f *files) open(inputs ...string) error {
	if f.html == "-" || f.history == "-" {
		return usagef("only --json can be -, for standard output")
	}
	var taken []os.FileInfo
	for _, name := range inputs {
		info, err := os.Stat(name)
		if err != nil {
			return usageError{err}
		}
		taken = append(taken, info)
	}
	f.opened = map[string]*os.File{}
	for _, name := range []string{f.html, f.history, f.json} {
		if name == "" || name == "-" {
			continue
		}
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return usageError{err}
		}
		f.opened[name] = file
		info, err := file.Stat()
		if err != nil {
			return usageError{err}
		}
		if info.Mode().IsRegular() && slices.ContainsFunc(taken, func(other os.FileInfo) bool { return os.SameFile(other, info) }) {
			return usagef("%s: this file is read, or another flag writes it: want a file of its own for each", name)
		}
		taken = append(taken, info)
	}
	return nil
}

func (f *files) close() {
	for _, file := range f.opened {
		_ = file.Close()
	}
}

// nameMissing names the report and the history if the command line did not.
func (f *files) nameMissing(base string) {
	if f.html == "" {
		f.html = base + ".html"
	}
	if f.history == "" {
		f.history = base + ".jsonl"
	}
}

// keep keeps the evidence of a failed run, and prints where. The files that the command line named are written as well.
func keep(c *console, seed uint64, o chaos.Outcome) error {
	dir, err := chaos.EvidenceDir(seed)
	if err == nil {
		err = o.Keep(dir)
	}
	if err != nil {
		return err
	}
	has := "the report, the history and the result"
	if len(o.Logs) > 0 { // a simulation has none
		has = "the report, the history, the result, and the logs of masters and clients"
	}
	fmt.Fprintf(c.err, "evidence: %s has %s\n", dir, has)
	return nil
}

// write writes the named files and prints their names. It goes on after an error and joins the errors.
func (f *files) write(c *console, result any, h history.Source, checks []check.Result, told *report.Told) error {
	return errors.Join(
		f.one(c, "report", f.html, func(w io.Writer) error { return report.Write(w, h, checks, told) }),
		f.one(c, "history", f.history, func(w io.Writer) error { return history.Copy(w, h) }),
		f.one(c, "result", f.json, func(w io.Writer) error { return json.NewEncoder(w).Encode(result) }),
	)
}

func (f *files) one(c *console, what, name string, write func(io.Writer) error) error {
	switch name {
	case "":
		return nil
	case "-":
		return write(c.out)
	}
	file := f.opened[name]
	if file == nil {
		var err error
		if file, err = os.Create(name); err != nil {
			return err
		}
		f.opened[name] = file
	}
	err := errors.Join(empty(file), write(file))
	if err == nil {
		fmt.Fprintf(c.err, "%s: %s\n", what, name)
	}
	return err
}

// empty removes what a file had before. A pipe or a device has nothing that could be removed.
func empty(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return file.Truncate(0)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}
