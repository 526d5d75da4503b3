package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/user"

	"github.com/stet-dev/stet/admin"
)

type tokenCmds struct {
	New tokenNewCmd `cmd:"" help:"Print a new token for an operator, and its entry for admin.tokens_file."`
}

type tokenNewCmd struct {
	Name  string   `placeholder:"NAME" help:"Name of its holder in the audit trail (your user's name)."`
	Role  string   `default:"viewer" enum:"viewer,operator,admin" help:"viewer, operator or admin (viewer)."`
	Scope []string `sep:"none" placeholder:"SCOPE" help:"Scope that the token is bound to, or a prefix followed by *; may be repeated (all scopes)."`
	JSON  bool     `name:"json" help:"Print both as JSON."`
}

// tokenEntry is what admin.tokens_file has for a name.
type tokenEntry struct {
	SHA256 string   `json:"sha256"`
	Role   string   `json:"role"`
	Scopes []string `json:"scopes,omitempty"`
}

// Run prints the token alone on stdout: it is piped into a file, and cannot be printed again.
func (c *tokenNewCmd) Run(w *world) error {
	name := c.Name
	if name == "" {
		u, err := user.Current()
		if err != nil {
			return failf(exitUsage, "the name of your user is not known; give --name")
		}
		name = u.Username
	}
	token := "stet_" + base64.RawURLEncoding.EncodeToString(fresh())
	sum := sha256.Sum256([]byte(token))
	entry := map[string]tokenEntry{name: {hex.EncodeToString(sum[:]), c.Role, c.Scope}}
	doc, err := json.Marshal(entry)
	if err == nil {
		_, err = admin.ParseTokens(doc)
	}
	if err != nil {
		return failf(exitUsage, "the gateway would not take this: %w", err)
	}
	if c.JSON {
		return writeJSON(w.stdout, map[string]any{"token": token, "tokens_file": entry})
	}
	if err := w.printf("%s\n", token); err != nil {
		return err
	}
	return errorOf(fmt.Fprintf(w.stderr, "its holder puts it into %s, and admin.tokens_file has\n%s\n", adminTokenVariable,
		doc))
}

type secretCmds struct {
	New secretNewCmd `cmd:"" help:"Print a new secret, in the form of its file."`
}

type secretNewCmd struct {
	Webhook    bool `xor:"kind" required:"" help:"For reconcile.webhook.secret_file."`
	Encryption bool `xor:"kind" required:"" help:"For store.encryption_keys_file; add a further key beside the existing ones."`
	Pepper     bool `xor:"kind" required:"" help:"For store.pepper_file."`
}

func (c *secretNewCmd) Run(w *world) error {
	key, secret := base64.StdEncoding.EncodeToString(fresh()), ""
	switch {
	case c.Webhook:
		secret = "whsec_" + key
	case c.Encryption:
		secret = fmt.Sprintf(`{"primary": "k1", "keys": {"k1": %q}}`, key)
	case c.Pepper:
		secret = base64.RawURLEncoding.EncodeToString(fresh())
	}
	if err := w.printf("%s\n", secret); err != nil {
		return err
	}
	return errorOf(fmt.Fprintln(w.stderr, "keep it in a file that only the gateway can read: chmod 600 FILE"))
}

// fresh returns 32 random bytes, which cannot be guessed.
func fresh() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return b
}
