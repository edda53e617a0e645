// SPDX-License-Identifier: Apache-2.0

package quorumtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// Authority signs the certificates of one test.
type Authority struct {
	t    testing.TB
	dir  string
	CA   string // file of its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64 // serial number
}

// TLSName is the name in the certificates of servers, beside 127.0.0.1.
const TLSName = "locks.test"

// NewAuthority makes an authority whose files end with the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir(), next: 2}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	NoErr(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &a.key.PublicKey, a.key)
	NoErr(t, err)
	a.cert, err = x509.ParseCertificate(der)
	NoErr(t, err)
	a.CA = filepath.Join(a.dir, "ca.pem")
	a.write(a.CA, "CERTIFICATE", der)
	return a
}

func (a *Authority) write(file, kind string, der []byte) {
	a.t.Helper()
	NoErr(a.t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// Issue writes the certificate and the key of name, over those that it wrote before. It is valid until then.
func (a *Authority) Issue(name string, until time.Time) (cert, key string) {
	a.t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	NoErr(a.t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	a.next++
	der, err := x509.CreateCertificate(rand.Reader, about, a.cert, &own.PublicKey, a.key)
	NoErr(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	NoErr(a.t, err)
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	a.write(cert, "CERTIFICATE", der)
	a.write(key, "PRIVATE KEY", secret)
	return cert, key
}

// Secure are redis-servers with a second port for TLS, on which they want a certificate of the client.
type Secure struct {
	*Authority
	Servers   []*localredis.Server
	Addrs     []string // of TLS
	Cert, Key string   // of a client
}

// StartSecure starts n of them. They end with the test.
func StartSecure(t testing.TB, n int, cfg localredis.Config) *Secure {
	t.Helper()
	needs.Redis(t)
	s := &Secure{Authority: NewAuthority(t)}
	s.Cert, s.Key = s.Issue("client", time.Now().Add(time.Hour))
	for range n {
		server, addr := s.start(cfg)
		t.Cleanup(func() { NoErr(t, server.Close()) })
		s.Servers, s.Addrs = append(s.Servers, server), append(s.Addrs, addr)
	}
	return s
}

// start starts one. Another program may take the port of TLS before the server has it.
func (s *Secure) start(cfg localredis.Config) (server *localredis.Server, addr string) {
	s.t.Helper()
	args := cfg.Args
	for try := 0; ; try++ {
		var port string
		port, addr = FreePort(s.t)
		cfg.Args = append(append([]string{}, args...), s.Args(port)...)
		server, err := localredis.Start(s.t.Context(), cfg)
		if err == nil {
			return server, addr
		}
		if strings.Contains(err.Error(), "Bad directive") {
			needs.Missing(s.t, "redis", "this redis-server was built without TLS")
		}
		if try == 3 {
			s.t.Fatal(err)
		}
	}
}

// Args are the arguments of a redis-server with TLS on port.
func (s *Secure) Args(port string) []string {
	cert, key := s.Issue(TLSName, time.Now().Add(time.Hour))
	return []string{"--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", s.CA, "--tls-auth-clients", "yes"}
}

// lastPort is the last port that FreePort tried, above firstPort. Processes begin at different places.
var lastPort atomic.Int64

func init() { lastPort.Store(int64(os.Getpid()) * 64) }

const firstPort, portCount = 20_000, 12_000

// FreePort returns a port that is free now. No system gives a port of this range to a connection by itself.
func FreePort(t testing.TB) (port, addr string) {
	t.Helper()
	for range portCount {
		port = strconv.FormatInt(firstPort+lastPort.Add(1)%portCount, 10)
		addr = net.JoinHostPort("127.0.0.1", port)
		if l, err := net.Listen("tcp", addr); err == nil {
			NoErr(t, l.Close())
			return port, addr
		}
	}
	t.Fatal("no free port")
	return "", ""
}

// Params are the parameters of a URL for a client of these files.
func Params(cert, key, ca string) string {
	q := url.Values{}
	for name, file := range map[string]string{"cert": cert, "key": key, "ca": ca} {
		if file != "" {
			q.Set(name, file)
		}
	}
	return q.Encode()
}

// URL is where server i is, for a client with the certificate.
func (s *Secure) URL(i int) string {
	return "rediss://" + s.Addrs[i] + "?" + Params(s.Cert, s.Key, s.CA)
}
