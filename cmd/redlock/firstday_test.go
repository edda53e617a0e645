// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

var confs = regexp.MustCompile("(?s)```conf\n(.*?)```")

// The configuration and the ACL of the first day, as they stand on the page, make masters that doctor finds nothing wrong with.
func TestFirstDay_configuration_doctorIsContent(t *testing.T) {
	t.Parallel()
	files := confs.FindAllStringSubmatch(runbookPage(t, "Masters as services"), -1)
	if len(files) != 2 {
		t.Fatalf("%d files", len(files))
	}
	acl := filepath.Join(t.TempDir(), "locks.acl")
	must(t, os.WriteFile(acl, []byte("user default on nopass ~* &* +@all\n"), 0o600)) // localredis logs in as nobody
	var args []string
	for line := range strings.Lines(files[0][1]) {
		switch words := strings.Fields(line); words[0] {
		case "bind", "port", "dir": // of this test
		case "aclfile":
			args = append(args, "--aclfile", acl)
		default:
			args = append(args, "--"+words[0], strings.Trim(words[1], `"`))
		}
	}
	var urls []string
	for range 3 {
		urls = append(urls, start(t, localredis.Config{Args: args}).URL())
	}
	must(t, os.WriteFile(acl, []byte(files[1][1]), 0o600))
	for i, url := range urls {
		must(t, direct(t, url).Do(t.Context(), "acl", "load").Err())
		urls[i] = strings.Replace(url, "redis://", "redis://locker:PASSWORD@", 1)
	}
	list := strings.Join(urls, ",")
	expectCode(t, exitOK, "init", never, "--nodes", list)
	said := expectCode(t, exitOK, "doctor", "--nodes", list)
	if strings.Contains(said, "refused") || strings.Contains(said, "may not") {
		t.Error(said)
	}
	lease := take(t, openClient(t, list), "x")
	must(t, lease.Unlock(t.Context()))
	if err := direct(t, strings.Replace(urls[0], "locker:PASSWORD@", "", 1)).Ping(t.Context()).Err(); err == nil {
		t.Error("the default user may log in")
	}
}
