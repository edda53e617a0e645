// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/report"
)

// EvidenceVar is the environment variable that names the folder for the folders of failed runs. Without it that is the current one.
const EvidenceVar = "REDLOCK_EVIDENCE"

// EvidenceDir makes a folder for the evidence of a failed run with this seed: chaos-failed-SEED, or with -2, -3 and so on behind it. It never
// returns one that was there before, which has the evidence of another run.
func EvidenceDir(seed uint64) (string, error) {
	under := os.Getenv(EvidenceVar)
	if under != "" {
		if err := os.MkdirAll(under, 0o755); err != nil {
			return "", fmt.Errorf("chaos: evidence: %w", err)
		}
	}
	first := filepath.Join(under, fmt.Sprintf("chaos-failed-%d", seed))
	dir := first
	for n := 2; ; n++ {
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("chaos: evidence: %w", err)
		}
		dir = fmt.Sprintf("%s-%d", first, n)
	}
}

// Keep makes the folder dir, if it is not there, for what a failed run leaves: report.html, history.jsonl, result.json, and a file with the log of each master and
// each client that wrote to its stderr. It goes on after an error and joins the errors.
func (o Outcome) Keep(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("chaos: evidence: %w", err)
	}
	write := func(name string, to func(io.Writer) error) error {
		f, err := os.Create(filepath.Join(dir, filepath.Base(name)))
		if err != nil {
			return err
		}
		return errors.Join(to(f), f.Close())
	}
	errs := []error{
		write("report.html", func(w io.Writer) error { return report.Write(w, o.History, o.Checks, nil) }),
		write("history.jsonl", func(w io.Writer) error { return history.Copy(w, o.History) }),
		write("result.json", func(w io.Writer) error { return json.NewEncoder(w).Encode(o.Result) }),
	}
	for name, log := range o.Logs {
		errs = append(errs, write(name+".log", func(w io.Writer) error { _, err := w.Write(log); return err }))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("chaos: evidence: %w", err)
	}
	return nil
}

// keepUnread keeps the history files of a run, of which err says that they cannot be read. It returns err with the names that they have now.
func (r *run) keepUnread(err error) error {
	kept, dirErr := EvidenceDir(r.cfg.Seed)
	if dirErr != nil {
		return errors.Join(err, dirErr)
	}
	said := strings.ReplaceAll(err.Error(), r.dir, kept)
	paths, globErr := filepath.Glob(filepath.Join(r.dir, "*.jsonl"))
	errs := []error{globErr}
	for _, path := range paths {
		name := filepath.Base(path)
		b, err2 := os.ReadFile(path)
		errs = append(errs, err2, os.WriteFile(filepath.Join(kept, name), b, 0o644))
		if r.cfg.Client != "" && path != r.file.Name() && strings.Contains(err.Error(), path) {
			said += "; the program of --client wrote " + name
		}
	}
	return errors.Join(append([]error{errors.New(said)}, errs...)...)
}
