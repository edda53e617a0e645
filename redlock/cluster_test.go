// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestClusterURLs_badInput_saysWhatToDo(t *testing.T) {
	urls, err := ClusterURLs("rediss-cluster://user:pw@a:1,b:2/", WithNodeCount(5))
	if err != nil || len(urls) != 5 || urls[1] != "rediss-cluster://user:pw@a:1,b:2/?tag="+"redlock.5.1.12" {
		t.Errorf("%q, %v", urls, err)
	}
	plain, err := ClusterURLs("redis-cluster://a:1")
	if err != nil {
		t.Fatal(err)
	}
	tag := strings.TrimPrefix(plain[0], "redis-cluster://a:1/?tag=")
	urls, err = ClusterURLs("redis-cluster://a:1/?name=new")
	if err != nil || urls[0] != plain[0]+"&name=new%2F"+tag {
		t.Errorf("%q, %v", urls, err)
	}
	urls, err = ClusterURLs("rediss-cluster://a:1?ca=/ca.pem&server_name=x")
	if err != nil || urls[2] != "rediss-cluster://a:1/?tag="+"redlock.3.2.1"+"&ca=/ca.pem&server_name=x" {
		t.Errorf("%q, %v", urls, err)
	}
	var noCtx context.Context
	for says, call := range map[string]func() ([]string, error){
		"want redis-cluster://":     func() ([]string, error) { return ClusterURLs("redis://user:secret@a:1") },
		"chooses the tags":          func() ([]string, error) { return ClusterURLs("redis-cluster://user:secret@a:1/?tag=x") },
		"64 masters: want 63":       func() ([]string, error) { return ClusterURLs("redis-cluster://a:1", WithNodeCount(64)) },
		"a nil option":              func() ([]string, error) { return ClusterURLs("redis-cluster://a:1", nil) },
		"use context.Background":    func() ([]string, error) { _, err := OpenCluster(noCtx, "redis-cluster://a:1"); return nil, err },
		"whole cluster: want redis": func() ([]string, error) { _, err := OpenCluster(t.Context(), "a:1"); return nil, err },
		"the port is no number":     func() ([]string, error) { _, err := OpenCluster(t.Context(), "redis-cluster://a:x"); return nil, err },
	} {
		_, err := call()
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}
