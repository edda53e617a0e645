// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/node/internal/locate"
)

func TestOpen_eachForm_understood(t *testing.T) {
	for url, want := range map[string]string{
		"redis://localhost":                                    "localhost:6379",
		"redis://localhost:1234/3":                             "localhost:1234/3",
		"redis://user:pass@10.0.0.1:1234":                      "10.0.0.1:1234",
		"redis://[::1]:1234":                                   "[::1]:1234",
		"redis://[::1]":                                        "[::1]:6379",
		"rediss://u:p@[::1]/2":                                 "[::1]:6379/2",
		"redis://[::1]?db=3":                                   "[::1]:6379/3",
		"rediss://host:1234":                                   "host:1234",
		"unix://user:pass@/tmp/redis.sock?db=2":                "/tmp/redis.sock/2",
		"redis-sentinel://a,b:1,c/mine":                        "sentinel:mine",
		"redis-sentinel://user:p%40ss@a:1,[::1]:2/my%2Fname/4": "sentinel:my/name/4",
		"rediss-sentinel://a/mine?sentinel_password=x":         "sentinel:mine",
		"redis-cluster://a,b:1,[::1]:2/?tag=locks":             "cluster:locks",
		"redis-cluster://a?tag=locks&name=m1":                  "m1",
		"rediss-cluster://user:p%40ss@a:1/0?tag=my%20locks":    "cluster:my locks",
	} {
		r, err := Open(url, Config{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if r.Name() != want {
			t.Errorf("%s is called %q, want %q", url, r.Name(), want)
		}
		if err := r.Close(); err != nil {
			t.Errorf("%s: closing: %v", url, err)
		}
	}
}

func TestOpen_credentialsAndDatabase_passedOn(t *testing.T) {
	r, err := openURL("redis://us%40er:p%3Ass@host:1/3", Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if o := r.opts; o.Username != "us@er" || o.Password != "p:ss" || o.DB != 3 || o.MaxRetries != -1 || o.DialerRetries != 1 {
		t.Errorf("%+v", o)
	}
	r, err = openURL("rediss-cluster://us%40er:p%3Ass@a:1,b/?tag=locks", Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if o := r.opts; o.Username != "us@er" || o.Password != "p:ss" || o.TLSConfig == nil || o.MaxRetries != -1 || o.DialerRetries != 1 ||
		r.Tag() != "locks" || !slices.Equal(r.locator.(*locate.Slot).Seeds(), []string{"a:1", "b:6379"}) {
		t.Errorf("%+v, seeds %q", o, r.locator.(*locate.Slot).Seeds())
	}
	r, err = openURL("redis://host:1?max_retries=5&read_timeout=1h", Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if o := r.opts; o.MaxRetries != -1 || o.ReadTimeout != (Config{}).withDefaults().IOTimeout {
		t.Errorf("the URL sets what is the lane's: %+v", o)
	}
}

func TestOpen_badURL_errorNamesTheFault(t *testing.T) {
	for url, says := range map[string]string{
		"":                                                    "no URL",
		"localhost:6379":                                      "no URL",
		"http://host":                                         "redis://host:port",
		"redis://host:99999999":                               "65535",
		"redis://host:0":                                      "65535",
		"redis://host/notanumber":                             "redis://host:port",
		"redis://host:1?nonsense=1":                           "nonsense",
		"redis://u:secret@host:1?foo=secret":                  `unknown query parameter "foo" (want`,
		"redis://host:1?foo=1":                                `unknown query parameter "foo" (want`,
		"redis://u:secret@host:1/zero":                        "database: want a number (want",
		"redis://u:secret@host:1?pool_size=secret":            "pool_size: want a number (want",
		"redis://u:secret@host:1?read_timeout=soon":           "read_timeout: want a duration (want",
		"redis://u:1/secret@host:6379":                        "percent-encoded", // a password with a / or ? in it
		"redis://u:1?secret=x@host:6379":                      "percent-encoded",
		"redis-sentinel://host":                               "no master name",
		"redis-sentinel://host/":                              "no master name",
		"redis-sentinel:///name":                              "empty host",
		"redis-sentinel://:26379/name":                        "empty host",
		"redis-sentinel://a,[]:26379/name":                    "empty host",
		"redis-cluster://a,:7001/?tag=x":                      "empty host",
		"redis://":                                            "empty host", // of an empty variable; go-redis takes it for localhost
		"redis://:7001":                                       "empty host",
		"rediss:///1":                                         "empty host",
		"redis://?db=1":                                       "empty host",
		"redis://user:secret@":                                "empty host",
		"redis://user:secret@:7001/0?name=m1":                 "empty host",
		"redis-sentinel://a,,b/name":                          "empty host",
		"redis-sentinel://a, b/name":                          "white space",
		"redis-sentinel://a\t:1/name":                         "white space",
		"redis-cluster://a,b\n/?tag=x":                        "white space",
		"redis-sentinel://a\x00/name":                         "white space",
		"redis://a:1#x":                                       "%23",
		"redis://app:2024#Secret@redis-1:6379":                "%23", // else the host is app, and the port 2024
		"unix:///tmp/s#x":                                     "%23",
		"redis-sentinel://a/name#x":                           "%23",
		"redis-cluster://a/?tag=#x":                           "%23",
		"redis-sentinel://a:99999/name":                       "65535",
		"redis-sentinel://a:0/name":                           "65535",
		"redis-sentinel://a/name/x":                           "database",
		"redis-sentinel://a/name/-1":                          "database",
		"redis://a:6379/-1":                                   "database -1: want 0 or more",
		"rediss://a:6379?db=-7":                               "database -7",
		"unix:///tmp/s.sock?db=-1":                            "database -1",
		"redis-sentinel://a/%zz":                              "no master name",
		"redis-sentinel://a/name?q=%zz":                       "query",
		"redis-sentinel://u%zz:p@a/name":                      "user name",
		"redis-sentinel://u:secre%zz@a/n":                     "password cannot be read",
		"redis-sentinel://u:p%zz@a/n?x=%z":                    "query",
		"redis-cluster://a":                                   "no tag",
		"redis-cluster://a/?tag=":                             "{locks}:name",
		"redis-cluster://a/?tag={x}":                          "no braces",
		"redis-cluster://a/1?tag=x":                           "no databases",
		"redis-cluster://a,,b/?tag=x":                         "empty host",
		"redis-cluster://a:0/?tag=x":                          "65535",
		"redis-cluster://u:p%zz@a/?tag=x":                     "password cannot be read",
		"redis-sentinel://a/n?tags=x":                         `"tags"`,
		"redis-sentinel://a/n?db=3":                           `"db"`,
		"redis://a:1?password=topsecret":                      "user and password stand before the host",
		"redis://a:1x?password=topsecret":                     "65535",
		"redis-sentinel://a/n?Q@x=1":                          "parameter cannot be read",
		"redis-cluster://a/?tag=x&tga=y":                      `"tga"`,
		"redis-cluster://a/?tag=x&name=m&sentinel_password=y": `"sentinel_password"`,
	} {
		r, err := Open(url, Config{})
		if err == nil {
			_ = r.Close()
			t.Errorf("%q passed", url)
			continue
		}
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want it to say %q", url, err, says)
		}
	}
}

// An unescaped character in a password splits the URL in an unexpected place. No error may
// contain one of the pieces.
func TestOpen_badURLWithPassword_neverToldOn(t *testing.T) {
	for _, url := range []string{
		"redis://user:sec/ret@host:6379",
		"redis://user:sec ret@host:6379",
		"redis://user:sec%ret@host:6379",
		"redis://user:sec#ret@host:6379",
		"redis://user:sec?ret@host:6379",
		"redis://user:2024#secret@host:6379",
		"sec#ret",
		// Before a comma in a password, where a program splits a list at its commas.
		"redis://user:secret",
		"rediss://user:secret/1",
		"redis-sentinel://user:secret",
		"redis-sentinel://user:secret/name/x",
		"redis-cluster://user:secret/?tag=x&tags=y",
		"user:secret",
		"redis://user:sec@ret@host:port",
		"redis://user:6379/secret@host/0",
		"redis://:secret@host:port",
		"rediss://:secret@host/x",
		"http://user:secret@host",
		"user:secret@host",
		"redis-sentinel://user:secret@host",
		"redis-sentinel://user:sec/ret@host/x",
		"redis-sentinel://host?sentinel_password=secret",
		"redis-sentinel://host?sentinel_PassWord=secret",
		"redis-sentinel://user:sec/ret@host",
		"redis-sentinel://user:sec?ret@host/x",
		"redis-cluster://user:secret@host",
		"redis-cluster://user:sec?ret@host/?tag=x",
		"rediss-cluster://user:sec/ret@host/?tag=x",
		// Letters that take more, or fewer, bytes as small ones.
		"redis-sentinel://" + strings.Repeat("Ⱥ", 50) + "?password=secret",
		"redis-sentinel://" + strings.Repeat("\u212a", 50) + "?password=secret",
	} {
		r, err := Open(url, Config{})
		if err == nil {
			_ = r.Close()
			continue // it can be read after all
		}
		for _, piece := range []string{"secret", "sec", "ret"} {
			if strings.Contains(err.Error(), piece) {
				t.Errorf("%q tells %q: %v", url, piece, err)
			}
		}
	}
}

// No input makes Open panic, or puts a password into an error.
func FuzzOpen(f *testing.F) {
	for _, s := range []string{
		"redis://", "redis://:%s@host:port", "redis-sentinel://u:%s@a,b/name?x=1", "redis-cluster://u:%s@a,b/?tag=x", "unix://%s@/x", "rediss://a:b:%s", "%s://",
		"rediss://h?ca=%s", "rediss://u:?ca=%s@h", "rediss://u:?cert=%s&key=x@h", "rediss-cluster://a/?tag=x&ca=password=%s",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, form string) {
		const secret = "Qx7Zs3cr3tPw"
		if strings.Contains(form, secret) {
			return
		}
		url := strings.Replace(form, "%s", secret, 1)
		r, err := Open(url, Config{})
		if err == nil {
			if r.Name() == "" {
				t.Errorf("%q has no name", url)
			}
			_ = r.Close()
			return
		}
		// It is a password where an @ follows, or a parameter says so.
		before, after, found := strings.Cut(url, secret)
		inScheme := strings.Contains(after, "://") && !strings.Contains(before, "://")
		if found && !inScheme && (strings.Contains(after, "@") || strings.HasSuffix(strings.ToLower(before), "password=")) &&
			strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", url, err)
		}
	})
}

func TestNew_otherKindsOfClient_refusedByName(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	var none *redis.Client
	var noCluster *redis.ClusterClient
	for _, c := range []redis.UniversalClient{ring, nil, none, noCluster, &redis.Client{}, &redis.ClusterClient{}} {
		if _, err := New(c, Config{}); err == nil || !strings.Contains(err.Error(), "*redis.C") {
			t.Errorf("%T: %v", c, err)
		}
	}
}

// A cluster needs a tag, and nothing else may have one.
// A name that is given is that of the node, and one in a URL goes before it.
func TestConfig_name_isTheNodes(t *testing.T) {
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mine", SentinelAddrs: []string{"127.0.0.1:1"}})
	defer client.Close()
	for want, open := range map[string]func() (Node, error){
		"m1":     func() (Node, error) { return New(client, Config{Name: "m1"}) },
		"m2":     func() (Node, error) { return Open("redis-sentinel://a/mine", Config{Name: "m2"}) },
		"of-url": func() (Node, error) { return Open("redis://a?name=of-url", Config{Name: "m3"}) },
		"a:6379": func() (Node, error) { return Open("redis://a", Config{}) },
		"m4":     func() (Node, error) { return Open("redis://a/7", Config{Name: "m4"}) },
	} {
		n, err := open()
		noErr(t, err)
		if n.Name() != want {
			t.Errorf("the node is called %q, want %q", n.Name(), want)
		}
		noErr(t, n.Close())
	}
}

func TestNew_tag_forAClusterAndNoneElse(t *testing.T) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, Username: "u", Password: "pw"})
	defer cluster.Close()
	one := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer one.Close()
	for _, tc := range []struct {
		client redis.UniversalClient
		tag    string
		says   string
	}{{cluster, "", "no tag"}, {cluster, "{x}", "no braces"}, {one, "x", "for a Redis Cluster only"}} {
		if _, err := New(tc.client, Config{Tag: tc.tag}); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%T with tag %q: %v", tc.client, tc.tag, err)
		}
	}
	nowhere := redis.NewClusterClient(&redis.ClusterOptions{})
	defer nowhere.Close()
	if _, err := New(nowhere, Config{Tag: "x"}); err == nil || !strings.Contains(err.Error(), "without addresses") {
		t.Errorf("no addresses: %v", err)
	}
	if _, err := Open("redis://host", Config{Tag: "x"}); err == nil {
		t.Error("a plain master has a tag")
	}
	r, err := openClient(cluster, Config{Tag: "locks"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if o := r.opts; r.Name() != "cluster:locks" || r.Tag() != "locks" || o.Username != "u" || o.Password != "pw" || o.MaxRetries != -1 ||
		!slices.Equal(r.locator.(*locate.Slot).Seeds(), []string{"127.0.0.1:1", "127.0.0.1:2"}) {
		t.Errorf("%s: %+v", r.Name(), o)
	}
}

// A client whose options make go-redis send scripts twice is safe: the lane has its own options.
func TestNew_clientThatRetries_laneDoesNot(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Password: "pw", DB: 4, MaxRetries: 7, PoolSize: 50})
	defer c.Close()
	r, err := openClient(c, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if o := r.opts; o.MaxRetries != -1 || o.DialerRetries != 1 || !o.ContextTimeoutEnabled || o.PoolSize != 1 || o.Password != "pw" || o.DB != 4 {
		t.Errorf("%+v", o)
	}
}
