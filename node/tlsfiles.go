// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/redact"
)

// tlsFiles are the parameters of a URL that are about TLS. Each new connection reads the files again, so a certificate that was
// renewed needs no restart.
type tlsFiles struct {
	cert, key  string // of the client, PEM
	ca         string // PEM of the authorities of the servers, in place of the system's
	serverName string // in place of the host of the URL
}

// cut removes the parameters from query.
func (f *tlsFiles) cut(query url.Values) {
	for name, value := range map[string]*string{"cert": &f.cert, "key": &f.key, "ca": &f.ca, "server_name": &f.serverName} {
		*value = query.Get(name)
		query.Del(name)
	}
}

// check returns what is wrong with the parameters and the files.
func (f *tlsFiles) check(scheme, query string) error {
	switch {
	case *f == tlsFiles{}:
		return nil
	case !strings.HasPrefix(scheme, "rediss"):
		return errors.New("cert, key, ca and server_name are for TLS: write rediss://, rediss-sentinel:// or rediss-cluster://")
	case strings.Contains(query, "@"): // it may be a piece of a password, which no error may quote
		return errors.New("a parameter cannot be read: write @ as %40 behind the ?")
	case f.cert != "" && f.key == "":
		return errors.New("cert without key: give the file of the certificate's private key as key")
	case f.key != "" && f.cert == "":
		return errors.New("key without cert: give the file of the certificate as cert")
	}
	_, err := f.config(&tls.Config{MinVersion: tls.VersionTLS12})
	return err
}

// config returns base with what the files contain now.
func (f *tlsFiles) config(base *tls.Config) (*tls.Config, error) {
	cfg := base.Clone()
	if f.serverName != "" {
		cfg.ServerName = f.serverName
	}
	if f.ca != "" {
		text, err := readTLSFile("ca", f.ca)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, tlsFileError("ca", f.ca, "has no certificate: name a PEM file with the authority that signed the servers' certificates")
		}
	}
	if f.cert == "" {
		return cfg, nil
	}
	pair, err := f.pair()
	if err != nil {
		return nil, err
	}
	// Certificates would leave out one of another authority than the server asks for, and the server would say that there is none.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	return cfg, nil
}

// pair returns the client's certificate with its key.
func (f *tlsFiles) pair() (*tls.Certificate, error) {
	cert, err := readTLSFile("cert", f.cert)
	if err != nil {
		return nil, err
	}
	key, err := readTLSFile("key", f.key)
	if err != nil {
		return nil, err
	}
	switch {
	case !hasPEM(cert, "CERTIFICATE"):
		return nil, tlsFileError("cert", f.cert, "has no certificate: name a PEM file with BEGIN CERTIFICATE, the client's own first")
	case bytes.Contains(key, []byte("ENCRYPTED")):
		return nil, tlsFileError("key", f.key, "is encrypted: write the key without a passphrase, with openssl pkey")
	case !hasPEM(key, "PRIVATE KEY"):
		return nil, tlsFileError("key", f.key, "has no private key: name a PEM file with BEGIN PRIVATE KEY")
	}
	pair, err := tls.X509KeyPair(cert, key)
	switch {
	case err == nil:
		return &pair, nil
	case strings.Contains(err.Error(), "does not match"):
		return nil, tlsFileError("key", f.key, "does not fit the certificate in "+quoteFile(f.cert)+": give the key with which that was made")
	}
	// The rest is of a text that is no key or no certificate. Errors of package tls quote nothing of it.
	return nil, tlsFileError("cert", f.cert, "cannot be used with its key "+quoteFile(f.key)+": "+err.Error()+": make both anew")
}

// hasPEM reports whether text has a block whose type ends so.
func hasPEM(text []byte, ending string) bool {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return false
		}
		if strings.HasSuffix(block.Type, ending) {
			return true
		}
	}
}

// tlsFileMax is more than any file of certificates has.
const tlsFileMax = 4 << 20

// readTLSFile returns what file contains, which is the value of a parameter.
func readTLSFile(param, file string) ([]byte, error) {
	const remedy = ": name a PEM file that this program may read"
	about, err := os.Stat(file)
	if err == nil && !about.Mode().IsRegular() { // a pipe could be read once only, and /dev/zero for ever
		return nil, tlsFileError(param, file, "is no regular file"+remedy)
	}
	if err == nil && about.Size() > tlsFileMax {
		return nil, tlsFileError(param, file, "is too long for a file of certificates"+remedy)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err
		}
		return nil, tlsFileError(param, file, "cannot be read: "+err.Error()+remedy)
	}
	return text, nil
}

// tlsFileError says what is wrong with the file of a parameter. The cause "TLS file" of internal/cause knows it by its words.
func tlsFileError(param, file, what string) error {
	return fmt.Errorf("the TLS file %s (%s) %s", quoteFile(file), param, what)
}

// quoteFile returns file for an error.
func quoteFile(file string) string {
	return fmt.Sprintf("%q", redact.Text(file))
}

// dial returns the dialer of the connections that the node makes: with TLS if there is a base. Its error is then an ErrTLS unless no server
// answers at the address. limit bounds connecting. The handshake, in which both sides compute, has twice that, or the rest of ctx.
func (f *tlsFiles) dial(base *tls.Config, limit time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: limit, KeepAlive: time.Minute}
	if base == nil {
		return plain.DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		cfg, err := f.config(base)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", protocol.ErrTLS, err)
		}
		c, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return handshake(ctx, c, addr, cfg, 2*limit)
	}
}

// handshake returns TLS on c, or closes c. Its error is an ErrTLS: a server that speaks no TLS does not answer it, and
// would else look like one that is out of reach.
func handshake(ctx context.Context, c net.Conn, addr string, cfg *tls.Config, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = addr
		if host, _, err := net.SplitHostPort(addr); err == nil {
			cfg.ServerName = host
		}
	}
	t := tls.Client(c, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("%w: %w", protocol.ErrTLS, err)
	}
	return &tlsConn{Conn: t}, nil
}

// asTLS returns err as an ErrTLS if it says that the handshake failed.
func asTLS(err error) error {
	var untrusted *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	var alert *net.OpError
	if errors.Is(err, protocol.ErrTLS) {
		return err
	}
	if errors.As(err, &untrusted) || errors.As(err, &noTLS) || errors.As(err, &alert) && alert.Op == remoteError {
		return fmt.Errorf("%w: %w", protocol.ErrTLS, err)
	}
	return err
}

// remoteError is the Op with which package tls reports an alert of the server.
const remoteError = "remote error"

// alertWait is how long the alert of a server that hung up may take: it was sent before.
const alertWait = 50 * time.Millisecond

// tlsConn is a connection that says why the server refuses the client. With TLS 1.3 a server looks at the client's certificate when
// the handshake has ended for the client. It sends an alert and hangs up, so the client's first write may fail before the alert is
// read, and the error of the write does not say why.
type tlsConn struct {
	*tls.Conn
	heard atomic.Bool // the server has sent something, so the client is let in
}

// Read implements net.Conn.
func (c *tlsConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(true)
	}
	return n, asTLS(err)
}

// Write implements net.Conn.
func (c *tlsConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || c.heard.Load() {
		return n, err
	}
	_ = c.SetReadDeadline(time.Now().Add(alertWait))
	if _, why := c.Read(make([]byte, 1)); errors.Is(why, protocol.ErrTLS) {
		err = why
	}
	return n, err
}
