package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A secret file that all users of the machine can read or change is refused.
func TestSecretFiles(t *testing.T) { // D11
	if runtime.GOOS == "windows" {
		t.Skip("its files have other rights")
	}
	dir := t.TempDir()
	name, link := filepath.Join(dir, "secret"), filepath.Join(dir, "link")
	if err := os.WriteFile(name, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name, link); err != nil { // Kubernetes mounts secrets so
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode][2]string{
		0o600: {}, 0o400: {}, 0o440: {}, 0o660: {},
		0o644: {"all users of this machine can read"}, 0o604: {"all users of this machine can read"},
		0o666: {"all users of this machine can change", "all users of this machine can change"},
		0o602: {"all users of this machine can change", "all users of this machine can change"},
	} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{name, link} {
			_, token := ReadToken(path)
			_, secret := ReadSecret(path)
			_, whole := ReadSecretFile(path, 100)
			for i, err := range []error{token, secret, whole} {
				text, mend := want[min(i, 1)], "chmod o-w "+path
				if i == 0 {
					mend = "chmod 600 " + path
				}
				if (err != nil) != (text != "") || err != nil && (!strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), mend)) {
					t.Errorf("%v, %d: %v", mode, i, err)
				}
			}
		}
	}
}

// What everybody may read is warned of, unless it is public (D11).
func TestExposedFiles(t *testing.T) {
	dir := t.TempDir()
	var c Config
	for path, set := range map[string]*string{"store.pepper_file": &c.Store.PepperFile, "reconcile.webhook.secret_file": &c.Reconcile.Webhook.SecretFile,
		"admin.tokens_file": &c.Admin.TokensFile} {
		*set = filepath.Join(dir, path)
		if err := os.WriteFile(*set, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Scope.SingleTenant = true
	if got := c.Warnings(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for _, name := range []string{c.Store.PepperFile, c.Reconcile.Webhook.SecretFile, c.Admin.TokensFile} {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var paths []string
	for _, w := range c.Warnings() {
		paths = append(paths, w.Path)
		if !strings.Contains(w.Text, "all users of this machine can read "+dir) || !strings.Contains(w.Text, "chmod 600 ") {
			t.Error(w.Text)
		}
	}
	if strings.Join(paths, " ") != "store.pepper_file reconcile.webhook.secret_file" {
		t.Errorf("%v", paths)
	}
}

func TestReadSecret(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{"a b\n": "a b", "x\r\n": "x", "x": "x", "": "is empty", " \n": "is empty", "a\nb\n": "more than one line", strings.Repeat("x", 5000): "over 4096 bytes"} {
		name := filepath.Join(dir, "f")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSecret(name)
		if err == nil && string(got) != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if got, err := ReadSecret(""); got != nil || err != nil {
		t.Errorf("without a name: %q, %v", got, err)
	}
}
