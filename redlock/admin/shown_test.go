// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"testing"

	"github.com/redlock-go/redlock/node"
)

// What the masters keep of a change can be read by whoever may read them.
func TestShown_noUserNoPassword(t *testing.T) {
	for u, want := range map[string]string{
		"redis://user:topsecret@h:6379/2?name=a":                                    "redis://h:6379/2?name=a",
		"unix://user:topsecret@/run/redis.sock?db=1":                                "unix:///run/redis.sock?db=1",
		"redis-sentinel://h:26379/m?sentinel_password=topsecret":                    "redis-sentinel://h:26379/m",
		"redis-sentinel://h/m?sentinel_username=user&sentinel%5Fpassword=topsecret": "redis-sentinel://h/m",
		"redis-sentinel://h/m?name=a&sentinel_password=top%23secret":                "redis-sentinel://h/m?name=a",
		"redis-sentinel://us%23er:topsecret@h:1,i:2/m":                              "redis-sentinel://h:1,i:2/m",
		"redis-cluster://user:topsecret@h:1,i:2/?tag=a":                             "redis-cluster://h:1,i:2/?tag=a",
	} {
		n, err := node.Open(u, node.Config{}) // only what it takes comes so far
		if err != nil {
			t.Error(err)
			continue
		}
		_ = n.Close()
		if got := shown(List{URLs: []string{u}}); got != want {
			t.Errorf("%s: %s, want %s", u, got, want)
		}
	}
}
