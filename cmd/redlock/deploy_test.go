// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v2"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// deployed is a copy of the folder deploy after its setup.sh.
type deployed struct {
	dir  string
	urls []string          // as setup.sh prints them
	env  map[string]string // .env
}

func deploy(t *testing.T) *deployed {
	t.Helper()
	needs.Program(t, "openssl")
	d := &deployed{dir: filepath.Join(t.TempDir(), "jane@corp-c++,#1%"), env: map[string]string{}}
	must(t, os.CopyFS(d.dir, os.DirFS("../../deploy")))
	out, err := exec.Command("sh", filepath.Join(d.dir, "setup.sh")).Output()
	must(t, err)
	d.urls = strings.Fields(string(out))
	if len(d.urls) != 3 {
		t.Fatalf("setup.sh says %q", out)
	}
	for line := range strings.Lines(d.read(t, ".env")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		d.env[name] = value
	}
	return d
}

func (d *deployed) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	must(t, err)
	return string(text)
}

// service is what the test needs of a service of compose.yaml.
type service struct {
	Image, User, Build   string
	Command, Ports       []string
	Volumes, Profiles    []string
	Environment, Ulimits map[string]string
	ReadOnly             bool     `yaml:"read_only"`
	CapDrop              []string `yaml:"cap_drop"`
	SecurityOpt          []string `yaml:"security_opt"`
	Restart              string
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// compose reads compose.yaml with the variables of .env. A field that is not in service is an error: it would not be looked at.
func (d *deployed) compose(t *testing.T) map[string]service {
	t.Helper()
	text := variable.ReplaceAllStringFunc(d.read(t, "compose.yaml"), func(v string) string {
		value, ok := d.env[v[2:len(v)-1]]
		if !ok {
			t.Errorf("%s is not in .env", v)
		}
		return value
	})
	var file struct {
		Name     string
		Master   service `yaml:"x-master"`
		Services map[string]service
	}
	must(t, yaml.UnmarshalStrict([]byte(text), &file))
	return file.Services
}

// here is a path of a container as a path of this machine.
func (d *deployed) here(t *testing.T, s service, path string) string {
	t.Helper()
	for _, v := range s.Volumes {
		words := strings.Split(v, ":")
		if len(words) != 3 || words[2] != "ro" {
			t.Fatalf("volume %q: want FROM:TO:ro", v)
		}
		if rest, ok := strings.CutPrefix(path, words[1]); ok {
			return filepath.Join(d.dir, words[0]) + rest
		}
	}
	t.Fatalf("no volume has %s", path)
	return ""
}

// start starts the command line of a service on this machine: the same configuration with the same files, on a port of this test.
func (d *deployed) start(t *testing.T, name string, s service) (addr string) {
	t.Helper()
	if len(s.Command) != 2 || s.Command[0] != "redis-server" {
		t.Fatalf("%s: command %q", name, s.Command)
	}
	text, err := os.ReadFile(d.here(t, s, s.Command[1]))
	must(t, err)
	conf := regexp.MustCompile(`(?m) (/\S+)$`).ReplaceAllStringFunc(string(text), func(path string) string { return " " + d.here(t, s, path[1:]) })
	file := filepath.Join(d.dir, name+".conf")
	must(t, os.WriteFile(file, []byte(conf), 0o600))
	port, addr := quorumtest.FreePort(t)
	cmd := exec.Command(s.Command[0], file, "--bind", "127.0.0.1", "--tls-port", port)
	cmd.Dir = t.TempDir()
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, name+" listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return addr
}

// The masters of compose.yaml, with its arguments, certificates and users: every command works on them, by the URLs of setup.sh and by the
// variables of the service redlock, and nobody else gets in.
func TestDeploy_compose_mastersOfThisMachine(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	t.Parallel()
	d := deploy(t)
	services := d.compose(t)
	command, urls := services["redlock"], slices.Clone(d.urls)
	nodes := command.Environment["REDLOCK_NODES"]
	for i, name := range []string{"master-1", "master-2", "master-3"} {
		s := services[name]
		outside, inside, _ := strings.Cut(strings.TrimPrefix(s.Ports[0], "127.0.0.1:"), ":")
		if !s.ReadOnly || s.Restart != "always" || s.User != d.env["OWNER"] || inside != "6379" || !strings.Contains(urls[i], "127.0.0.1:"+outside+"?name="+name) {
			t.Errorf("%s: %+v, and %s", name, s, urls[i])
		}
		addr := d.start(t, name, s)
		urls[i] = strings.Replace(urls[i], "127.0.0.1:"+outside, addr, 1)
		nodes = strings.Replace(nodes, name+":"+inside, addr, 1)
	}
	env := []string{"REDLOCK_NODES=" + nodes}
	for _, name := range []string{"CERT", "KEY", "CA"} {
		env = append(env, "REDLOCK_TLS_"+name+"="+d.here(t, command, command.Environment["REDLOCK_TLS_"+name]))
	}
	everyCommand(t, openOn(urls...), []string{"--from", nodes}, asProgram(t, env, "--max-ttl", tlsTTL))

	bare := regexp.MustCompile(`locker:\w+@`)
	for what, env := range map[string][]string{
		"no user":         {"REDLOCK_NODES=" + bare.ReplaceAllString(nodes, ""), env[1], env[2], env[3]},
		"wrong password":  {"REDLOCK_NODES=" + bare.ReplaceAllString(nodes, "locker:x@"), env[1], env[2], env[3]},
		"no certificates": {env[0], env[3]},
	} {
		if said := asProgram(t, env)(exitMasters, "run", "x", "--", "true"); !strings.Contains(said, "password") && !strings.Contains(said, "certificate") && !strings.Contains(said, "user") {
			t.Errorf("%s: %s", what, said)
		}
	}
}

// The user that locks has the rights of the docs, and setup.sh does not replace what masters may use.
func TestDeploy_setup_rightsAndNothingReplaced(t *testing.T) {
	d := deploy(t)
	acl := d.read(t, "secrets/users.acl")
	wantRights(t, acl)
	if !strings.HasPrefix(acl, "user default off\n") || strings.Contains(acl, d.env["LOCKER_PASSWORD"]) || strings.Contains(acl, "nopass") {
		t.Error("users.acl lets others in, or has a password")
	}
	out, err := exec.Command("sh", filepath.Join(d.dir, "setup.sh")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Remove all three") || d.read(t, "secrets/users.acl") != acl {
		t.Errorf("a second time: %v, %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "secrets/authority.key")); err == nil {
		t.Error("masters see the key of the authority")
	}
}

// A setup that fails says why, and leaves nothing: it can be tried again.
func TestDeploy_setupFails_saysWhyAndLeavesNothing(t *testing.T) {
	needs.Program(t, "sh")
	dir, bin := t.TempDir(), t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("../../deploy")))
	before, err := os.ReadDir(dir)
	must(t, err)
	for _, name := range []string{"dirname", "mkdir", "rm", "cat"} {
		path, err := exec.LookPath(name)
		must(t, err)
		must(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	for _, want := range []string{"openssl is missing", "no such curve"} {
		setup := exec.Command("/bin/sh", filepath.Join(dir, "setup.sh"))
		setup.Env = []string{"PATH=" + bin}
		out, err := setup.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, and it says %q, want %q", err, out, want)
		}
		after, err := os.ReadDir(dir)
		must(t, err)
		if len(after) != len(before) {
			t.Errorf("it leaves %v", after)
		}
		must(t, os.WriteFile(filepath.Join(bin, "openssl"), []byte("#!/bin/sh\necho no such curve >&2\nexit 1\n"), 0o700))
	}
}

// The image is built from scratch with the program alone, and runs.
func TestDeploy_image_runs(t *testing.T) {
	needs.Docker(t)
	needs.Program(t, "docker")
	dir, image := t.TempDir(), "redlock-test:"+strings.ToLower(rand.Text()[:10])
	must(t, os.CopyFS(dir, os.DirFS("../../deploy")))
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "redlock"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	must(t, ran(build))
	must(t, ran(exec.Command("docker", "build", "-t", image, dir)))
	t.Cleanup(func() { must(t, ran(exec.Command("docker", "rmi", "-f", image))) })
	out, err := exec.Command("docker", "run", "--rm", "--read-only", image, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "redlock ") {
		t.Errorf("version: %v, %s", err, out)
	}
	out, err = exec.Command("docker", "image", "inspect", "-f", "{{len .RootFS.Layers}} {{.Config.User}} {{.Config.Entrypoint}}", image).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "1 65532:65532 [/redlock]" {
		t.Errorf("the image has %s, %v", out, err)
	}
}

// ran runs a program. What it says is in the error.
func ran(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
	}
	return nil
}
