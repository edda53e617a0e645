// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/redlock-go/redlock/redlock/admin"
)

// fit names the masters in the commands that text advises as this command's flags name them: a file, a whole cluster, and what TLS needs.
// A URL may have a password, and is not shown.
func (m *masters) fit(text string) string {
	switch {
	case m.cluster != "":
		text = strings.NewReplacer("--nodes URLS", "--cluster URL", "--nodes OLD_URLS", "--cluster OLD_URL", "--nodes NEW_URLS", "--cluster NEW_URL",
			"--from URLS --to URLS", "--cluster URL --to-cluster URL", "--from URLS", "--cluster URL").Replace(text)
	case m.file != "":
		// The list of this command is the old one of some changes that are advised, and the new one of others.
		own := "--nodes-file " + word(m.file)
		text = strings.NewReplacer("--nodes URLS", own, "--nodes OLD_URLS", "--nodes-file OLD_FILE", "--nodes NEW_URLS", "--nodes-file NEW_FILE",
			"--from URLS --to URLS", "--nodes-file OLD_FILE --to-nodes-file NEW_FILE", "--from URLS", own).Replace(text)
	}
	flags := ""
	for i, v := range m.tls.values() {
		if *v != "" {
			flags += " --" + tlsParams[i].flag + " " + word(*v)
		}
	}
	for _, verb := range []string{"init", "status", "reconfigure", "cancel"} {
		text = strings.ReplaceAll(text, "redlock "+verb+" --", "redlock "+verb+flags+" --")
	}
	return text
}

// fitNew does that in what a change says, for the masters that it leads to. The old ones may have been given in another way.
func (m *masters) fitNew(text string) string {
	own := "--nodes NEW_URLS"
	switch {
	case m.cluster != "":
		own = "--cluster NEW_URL"
	case m.file != "":
		own = "--nodes-file " + word(m.file)
	}
	return strings.NewReplacer("--nodes NEW_URLS", own, "--cluster NEW_URL", own, "--nodes-file NEW_FILE", own).Replace(text)
}

// harmless are the letters that no shell reads as anything else.
const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-"

// word is s as a word of a command line.
func word(s string) string {
	if strings.Trim(s, harmless) != "" || s == "" {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" // within double quotes a shell replaces $ and `
	}
	return s
}

// fitStatus is fit for all of s, which may be nil.
func (m *masters) fitStatus(s *admin.Status) {
	if s == nil {
		return
	}
	s.Text = m.fit(s.Text)
	for i := range s.Masters {
		at := &s.Masters[i]
		at.Text, at.Remedy = m.fit(at.Text), m.fit(at.Remedy)
	}
}
