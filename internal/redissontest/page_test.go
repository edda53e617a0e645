// SPDX-License-Identifier: Apache-2.0

package redissontest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// The Java of docs/migrate-from-redisson-redlock.md compiles as it stands against the Redisson that the page names.
func TestPage_javaBlock_compiles(t *testing.T) {
	needs.Java(t)
	page, err := os.ReadFile("../../docs/migrate-from-redisson-redlock.md")
	if err != nil {
		t.Fatal(err)
	}
	_, java, _ := strings.Cut(string(page), "```java\n")
	java, _, found := strings.Cut(java, "```")
	if !found || !strings.Contains(string(page), "Compared with Redisson 4.7.0.") {
		t.Fatal("no Java, or of another Redisson")
	}
	built, err := build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	src := "import java.util.concurrent.TimeUnit;\nimport org.redisson.api.RLock;\nimport org.redisson.api.RedissonClient;\n\nabstract class Page {\n" +
		"abstract void work();\n" + java + "}\n"
	if err := os.WriteFile(filepath.Join(dir, "Page.java"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(built, "lib")
	if _, err := os.Stat(filepath.Join(lib, "redisson-4.7.0.jar")); err != nil {
		t.Fatal(err)
	}
	javac := exec.Command("javac", "-proc:none", "-cp", filepath.Join(lib, "*"), "-d", dir, filepath.Join(dir, "Page.java"))
	if out, err := javac.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, src)
	}
}
