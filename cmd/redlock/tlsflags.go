// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/node"
)

// tlsFlags are the files for all masters whose URL is rediss:// and has no such parameters of its own.
type tlsFlags struct{ cert, key, ca, serverName string }

// tlsParams are the parameters of a URL, with their flags and variables.
var tlsParams = []struct{ param, flag, variable, usage string }{
	{"cert", "tls-cert", "REDLOCK_TLS_CERT", "PEM `FILE` of the client's certificate, for masters that want one"},
	{"key", "tls-key", "REDLOCK_TLS_KEY", "PEM `FILE` of its private key"},
	{"ca", "tls-ca", "REDLOCK_TLS_CA", "PEM `FILE` of the authority of the masters' certificates (default those of the system)"},
	{"server_name", "tls-server-name", "REDLOCK_TLS_SERVER_NAME", "`NAME` in the masters' certificates (default the host of the URL)"},
}

// values are the fields in the order of tlsParams.
func (f *tlsFlags) values() []*string { return []*string{&f.cert, &f.key, &f.ca, &f.serverName} }

func (f *tlsFlags) define(fs *pflag.FlagSet) {
	for i, v := range f.values() {
		fs.StringVar(v, tlsParams[i].flag, "", tlsParams[i].usage)
	}
}

// check says what is wrong if flags are given for masters that have no use for them: they would be reached without TLS. Variables are for
// all commands of a host.
func (f *tlsFlags) check(urls []string) error {
	for _, u := range urls {
		if strings.HasPrefix(u, "rediss") {
			return nil
		}
	}
	for i, v := range f.values() {
		if *v != "" {
			return fmt.Errorf("--%s is for masters with TLS, and none is named so: write rediss://host:port", tlsParams[i].flag)
		}
	}
	return nil
}

// apply returns the URLs with what the flags say, and else the variables. Its error names these.
func (f *tlsFlags) apply(urls []string) ([]string, error) {
	query := url.Values{}
	for i, v := range f.values() {
		file := *v
		if file == "" {
			file = os.Getenv(tlsParams[i].variable)
		}
		if file != "" {
			query.Set(tlsParams[i].param, file)
		}
	}
	if len(query) == 0 {
		return urls, nil
	}
	used := false
	applied := make([]string, len(urls))
	for i, u := range urls {
		applied[i] = u
		if strings.HasPrefix(u, "rediss") && !hasTLSParams(u) {
			sep := "?"
			if strings.Contains(u, "?") {
				sep = "&"
			}
			applied[i] += sep + query.Encode()
			used = true
		}
	}
	if !used {
		return applied, nil
	}
	return applied, f.wrong(query)
}

// ofFile is how package node names a file.
var ofFile = regexp.MustCompile(`^the TLS file ("(?:[^"\\]|\\.)*") \(([a-z]+)\)`)

// wrong is what is wrong with query, in which each parameter is a flag's or a variable's, in words of these.
func (f *tlsFlags) wrong(query url.Values) error {
	names := map[string]string{}
	for i, v := range f.values() {
		if names[tlsParams[i].param] = "--" + tlsParams[i].flag; *v == "" && os.Getenv(tlsParams[i].variable) != "" {
			names[tlsParams[i].param] = tlsParams[i].variable
		}
	}
	switch cert, key := names["cert"], names["key"]; {
	case query.Has("cert") && !query.Has("key"):
		return fmt.Errorf("%s without %s: give the file of the certificate's private key too", cert, key)
	case query.Has("key") && !query.Has("cert"):
		return fmt.Errorf("%s without %s: give the file of the certificate too", key, cert)
	}
	n, err := node.Open("rediss://localhost?"+query.Encode(), node.Config{})
	if err == nil {
		return n.Close()
	}
	_, what, _ := strings.Cut(err.Error(), `": `) // behind the URL, in which a quote is %22
	if file := ofFile.FindStringSubmatch(what); file != nil {
		what = names[file[2]] + " " + file[1] + what[len(file[0]):]
	}
	return errors.New(what)
}

// hasTLSParams reports whether rawURL has one of tlsParams, or a query that cannot be read.
func hasTLSParams(rawURL string) bool {
	_, query, _ := strings.Cut(rawURL, "?")
	own, err := url.ParseQuery(query)
	for _, p := range tlsParams {
		if err != nil || own.Has(p.param) {
			return true
		}
	}
	return false
}
