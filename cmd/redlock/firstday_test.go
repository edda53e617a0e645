// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

var confs = regexp.MustCompile("(?s)```conf\n(.*?)```")

// firstDay starts masters with the configuration and the ACL of the first day, as they stand on the page. Nobody may log in by these URLs.
func firstDay(t *testing.T, masters int) (urls []string) {
	t.Helper()
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
	for range masters {
		urls = append(urls, start(t, localredis.Config{Args: args}).URL())
	}
	must(t, os.WriteFile(acl, []byte(files[1][1]), 0o600))
	for _, url := range urls {
		must(t, direct(t, url).Do(t.Context(), "acl", "load").Err())
	}
	return urls
}

// The configuration and the ACL of the first day make masters that doctor finds nothing wrong with.
func TestFirstDay_configuration_doctorIsContent(t *testing.T) {
	t.Parallel()
	nobody := firstDay(t, 3)
	wantRights(t, confs.FindAllStringSubmatch(runbookPage(t, "Masters as services"), -1)[1][1])
	var urls []string
	for _, url := range nobody {
		urls = append(urls, strings.Replace(url, "redis://", "redis://locker:PASSWORD@", 1))
	}
	list := strings.Join(urls, ",")
	expectCode(t, exitOK, "init", never, "--nodes", list)
	said := expectCode(t, exitOK, "doctor", "--nodes", list)
	if strings.Contains(said, "refused") || strings.Contains(said, "may not") {
		t.Error(said)
	}
	lease := take(t, openClient(t, list), "x")
	must(t, lease.Unlock(t.Context()))
	if err := direct(t, nobody[0]).Ping(t.Context()).Err(); err == nil {
		t.Error("the default user may log in")
	}
}

// The first lines that change a password, typed on such a master as the page says how redis-cli logs in.
func TestFirstDay_redisCLI_logsInAsThePageSays(t *testing.T) {
	needs.Redis(t)
	needs.Program(t, "redis-cli")
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	_, runbooks, _ := strings.Cut(string(page), "\n## Runbooks\n")
	login := regexp.MustCompile("begin each `redis-cli` with `(redis-cli [^`]+)`").FindStringSubmatch(runbooks)
	lines := regexp.MustCompile(`redis-cli -h HOST (acl .*)`).FindAllStringSubmatch(runbookPage(t, "Change a password"), 2)
	if login == nil || len(lines) != 2 || !strings.Contains(runbooks, "`REDISCLI_AUTH`") {
		t.Fatalf("the page says %q and %q", login, lines)
	}
	typed := func(password, command string) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+password)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		return strings.TrimSpace(string(out))
	}
	at := " -h 127.0.0.1 -p " + port(firstDay(t, 1)[0]) + " "
	for _, line := range lines { // the user gets a second password, and the file is written
		if said := typed("OTHER-PASSWORD", login[1]+at+line[1]); said != "OK" {
			t.Errorf("%s: %s", line[0], said)
		}
	}
	if said := typed("NEW", "redis-cli --user locker"+at+"ping"); said != "PONG" {
		t.Errorf("the new password: %s", said)
	}
}
