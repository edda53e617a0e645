// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// certificate is one that nobody signed.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, own, own, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// served is the address of a server that does this with each connection, and hangs up.
func served(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				do(c)
			}()
		}
	}()
	return l.Addr().String()
}

// A server that answers is not said to be out of reach: what it wants is found, also where it hangs up without a word.
func TestReady_serverHangsUp_saysWhy(t *testing.T) {
	t.Parallel()
	shown := certificate(t)
	tlsServer := served(t, func(c net.Conn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{shown}})
		if s.Handshake() == nil {
			_, _ = s.Read(make([]byte, 100))
		}
	})
	full := served(t, func(c net.Conn) { _, _ = c.Write([]byte("-ERR max number of clients reached\r\n")) })
	mute := served(t, func(c net.Conn) {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, _ = c.Read(make([]byte, 1000))
	})
	gone := served(t, func(net.Conn) {})
	for _, tc := range []struct{ name, url, word string }{
		{"redis:// to TLS", "redis://" + tlsServer, "TLS missing"},
		{"rediss:// to a certificate of nobody", "rediss://" + tlsServer, "certificate"},
		{"rediss:// to a server without TLS", "rediss://" + mute, "TLS"},
		{"max number of clients", "redis://" + full, "clients"},
		{"no word", "redis://" + gone, "hangs up"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := patient
			if tc.word == "TLS" {
				cfg = node.Config{} // ended by the limit
			}
			n, err := node.Open(tc.url, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			n.Bind(protocol.Binding{CheckRecordState: true})
			err = n.Ready(t.Context())
			c := cause.Of(err)
			if c.Word != tc.word || strings.Contains(c.Text, "out of reach") {
				t.Errorf("%v: %+v, want %s", err, c, tc.word)
			}
			if strings.Contains(tc.word, "TLS") && !strings.Contains(err.Error(), "TLS") {
				t.Errorf("no word of TLS: %v", err)
			}
		})
	}
}
