// SPDX-License-Identifier: Apache-2.0

package workload

import "runtime/debug"

const modulePath = "github.com/redlock-go/redlock"

// Revision is the version of this library in this program, with the commit where the build wrote it down: go build does, go run and
// go test do not.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return revision(info)
}

func revision(info *debug.BuildInfo) string {
	m := info.Main
	for _, dep := range info.Deps {
		if dep.Path == modulePath {
			m = *dep
		}
	}
	v := m.Version
	if v == "" {
		v = "(devel)"
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if commit := set["vcs.revision"]; commit != "" && m.Path == info.Main.Path {
		v += " commit " + commit[:min(12, len(commit))]
		if set["vcs.modified"] == "true" {
			v += " with changes"
		}
	}
	return v
}
