package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// serving runs a gateway in this process until the test ends. It returns where it listens.
func serving(t *testing.T, conf string) (listen, admin string) {
	t.Helper()
	upstream := httptest.NewServer((&paymentsAPI{}).handler())
	t.Cleanup(upstream.Close)
	if err := os.WriteFile("stet.yaml", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stderr := &awaited{line: make(chan string, 100)}
	ended := make(chan exit, 1)
	go func() {
		ended <- run(ctx, []string{"gateway", "--config", "stet.yaml", "--upstream", upstream.URL, "--listen", "127.0.0.1:0",
			"--admin", "127.0.0.1:0", "--store", "memory:"},
			nil, &bytes.Buffer{}, stderr)
	}()
	var ready struct{ Msg, Listen, Admin string }
	for ready.Msg != "ready" {
		select {
		case l := <-stderr.line:
			_ = json.Unmarshal([]byte(l), &ready)
		case e := <-ended:
			t.Fatalf("it ended with %d", e)
		}
	}
	t.Cleanup(func() {
		cancel()
		if e := <-ended; e != exitFine {
			t.Errorf("it ended with %d", e)
		}
	})
	return ready.Listen, ready.Admin
}

// sendCharge sends a keyed charge and returns the response, its body read.
func sendCharge(t *testing.T, c *http.Client, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/charges", strings.NewReader("amount=5"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Idempotency-Key", "k1")
	res, err := c.Do(req)
	if err == nil {
		_ = res.Body.Close()
	}
	return res, err
}

// TLS brings HTTP/2, and a client's certificate is whose requests they are.
func TestTLSAndClientCertificates(t *testing.T) {
	t.Chdir(t.TempDir())
	ca := authority(t)
	ca.issue(t, "server", x509.ExtKeyUsageServerAuth)
	client := ca.issue(t, "client", x509.ExtKeyUsageClientAuth)
	listen, admin := serving(t, `
tls: { cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem }
scope: { client_cert: true }
`)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	with := func(certs ...tls.Certificate) *http.Client {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs}, ForceAttemptHTTP2: true}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	res, err := sendCharge(t, with(client), "https://"+listen)
	if err != nil || res.StatusCode != http.StatusCreated || res.ProtoMajor != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	if res, err := sendCharge(t, with(), "https://"+listen); err == nil {
		t.Errorf("without a certificate: %d", res.StatusCode)
	}
	list, err := http.Get("http://" + admin + "/api/v1/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Body.Close()
	var page struct{ Keys []struct{ Scope string } }
	if err := json.NewDecoder(list.Body).Decode(&page); err != nil || len(page.Keys) != 1 ||
		!strings.HasPrefix(page.Keys[0].Scope, "cert_") {
		t.Errorf("%+v, %v", page, err)
	}
}

// h2c: HTTP/2 without TLS, for those who know that it is spoken.
func TestH2C(t *testing.T) {
	t.Chdir(t.TempDir())
	listen, _ := serving(t, "h2c: true\n")
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: p}
	defer tr.CloseIdleConnections()
	if res, err := sendCharge(t, &http.Client{Transport: tr}, "http://"+listen); err != nil || res.ProtoMajor != 2 ||
		res.StatusCode != http.StatusCreated {
		t.Errorf("%+v, %v", res, err)
	}
}

// A certificate that has ended is found by --deep at each of the listeners.
func TestDeepLooksAtBothCertificates(t *testing.T) { // Y17
	t.Chdir(t.TempDir())
	ca := authority(t)
	ca.issue(t, "good", x509.ExtKeyUsageServerAuth)
	ca.sign(t, "ended", &x509.Certificate{SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "ended"},
		NotAfter: time.Now().Add(-time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, newKey(t))
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	section := func(name string) string { return "tls: { cert_file: " + name + ".pem, key_file: " + name + ".key }" }
	for _, names := range [][2]string{{"good", "ended"}, {"ended", "good"}, {"good", "good"}} {
		configured(t, "store: { dsn: 'memory:' }\nscope: { single_tenant: true }\n"+section(names[0])+"\nadmin: { "+section(names[1])+" }\n")
		_, _, errs := ran(t, "config", "check", "stet.yaml", "--deep", "--upstream", upstream.URL)
		for i, said := range []string{" tls.cert_file: the certificate ended on", " admin.tls.cert_file: the certificate ended on"} {
			if strings.Contains(errs, said) != (names[i] == "ended") {
				t.Errorf("%v: %s", names, errs)
			}
		}
	}
}

// issuer signs certificates for tests.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func authority(t *testing.T) *issuer {
	t.Helper()
	ca := &issuer{key: newKey(t)}
	ca.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca.sign(t, "ca", ca.cert, ca.key)
	return ca
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// issue writes NAME.pem and NAME.key.
func (ca *issuer) issue(t *testing.T, name string, use x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	return ca.sign(t, name, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{use}}, newKey(t))
}

func (ca *issuer) sign(t *testing.T, name string, c *x509.Certificate, key *ecdsa.PrivateKey) tls.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name +
		".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if name == "ca" {
		if ca.cert, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
