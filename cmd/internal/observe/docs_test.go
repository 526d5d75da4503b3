package observe

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stet-dev/stet/operate"
)

// Each metric is in a document, and documents name no others; those of the outbox are a service's
// own.
func TestDocumentsNameTheMetrics(t *testing.T) {
	m := NewMetrics("test")
	m.Unstored(func() (int, int64) { return 0, 0 })
	m.Upstream(func() *operate.Health { return nil })
	m.StoreLog(func() (int64, error) { return 0, nil })
	descs := make(chan *prometheus.Desc)
	go func() { m.registry.Describe(descs); close(descs) }()
	there := map[string]bool{}
	for d := range descs {
		if name := regexp.MustCompile(`"(idem_[a-z_]+)"`).FindStringSubmatch(d.String()); name != nil {
			there[name[1]] = true
		}
	}
	if len(there) < 15 {
		t.Fatalf("only %d metrics were found", len(there))
	}
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bidem_[a-z_]+`).FindAllString(string(text), -1) {
			name = strings.TrimSuffix(name, "_bucket")
			named[name] = true
			if !there[name] && !strings.HasPrefix(name, "idem_outbox_") {
				t.Errorf("%s names %s, and there is no such metric", filepath.Base(f), name)
			}
		}
	}
	for name := range there {
		if !named[name] {
			t.Errorf("no document names %s", name)
		}
	}
}
