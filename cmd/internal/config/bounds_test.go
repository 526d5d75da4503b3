package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/tierstore"
)

// TestBoundsAreInTheTable walks the configuration: every setting that bounds something is a row of
// docs/threats.md, with its default.
func TestBoundsAreInTheTable(t *testing.T) { // C11
	doc, err := os.ReadFile("../../../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	visitBounds(reflect.TypeFor[File](), "", func(path, def string) {
		n++
		row := rowOf(string(doc), "`"+path+"`")
		if row == "" {
			t.Errorf("%s bounds something, and is not in the table of docs/threats.md", path)
		} else if want := readable(def); !strings.Contains(row, "| "+want+" |") {
			t.Errorf("the default of %s is %s, and the table says\n%s", path, want, row)
		}
	})
	if n < 10 {
		t.Errorf("only %d bounds were found", n)
	}
}

// visitBounds visits the settings of limits, and all that are a most of something but time. Those
// of routes are those of the policy.
func visitBounds(t reflect.Type, prefix string, visit func(path, def string)) {
	for f := range t.Fields() {
		key := f.Tag.Get("yaml")
		path := join(prefix, key)
		switch most := strings.HasPrefix(key, "max_") && !strings.HasSuffix(key, "_s"); {
		case f.Type.Kind() == reflect.Struct:
			visitBounds(f.Type, path, visit)
		case prefix == "limits" || most:
			visit(path, f.Tag.Get("default"))
		}
	}
}

func rowOf(doc, name string) string {
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(line, "| ") && strings.Contains(line, name) {
			return line
		}
	}
	return ""
}

// readable writes a default as the table does.
func readable(def string) string {
	n, err := strconv.Atoi(def)
	switch {
	case err == nil && n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case err == nil && n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return def
}

// What the file takes, the library takes: no bound of a setting is wider than that of the field it
// stands for.
func TestTheFilesBoundsAreWithinTheLibrarys(t *testing.T) { // U08, K12
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	whole := load(t, "upstream: http://127.0.0.1:1\nscope: { single_tenant: true }\n")
	tried, taken := 0, 0
	settings(reflect.ValueOf(&whole.File).Elem(), "", func(f field, path string, _ reflect.Value) {
		was := reflect.New(f.Type()).Elem()
		was.Set(f.Value)
		at := f
		if f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Int {
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			at.Value = f.Index(0)
		} else if !f.CanInt() && !f.CanFloat() {
			return
		}
		tried++
		for _, text := range []string{"0", "0.000000001", "0.000999999", "0.001", "1", "42", "99", "100", "199", "200", "599", "600", "1000", "10001", "1073741824",
			"1073741825", "1099511627776", "1099511627777", "3153600000", "3153600001", "9223372036", f.tag.Get("min"), f.tag.Get("max")} {
			if at.setNumber(text) != nil {
				continue
			}
			taken++
			if err := refusedByTheLibrary(engine, whole); err != nil {
				t.Errorf("%s: %s is taken, and then: %v", path, text, err)
			}
		}
		f.Set(was)
	})
	if tried < 40 || taken < 4*tried {
		t.Errorf("%d settings were tried with %d values", tried, taken)
	}
}

// refusedByTheLibrary returns the first error that says that a number is out of bounds.
func refusedByTheLibrary(e *stet.Engine, c *Config) error {
	errs := []error{c.Policy.HTTP().Validate(), stethttp.Config{Limits: stethttp.NewLimits(c.LimitsConfig())}.Validate()}
	try := func(_ any, err error) { errs = append(errs, err) }
	try(stet.New(e.Store(), stet.Config{StoreTimeout: c.Store.Timeout.Duration()}))
	try(tierstore.New(tierstore.NewMemory(0), e.Store(), tierstore.Config{TTL: c.Store.CacheTTL.Duration()}))
	try(maintenance.Sweeper{Engine: e, Every: c.Keeper.SweepInterval.Duration()}.Rounds())
	try(maintenance.Reaper{Engine: e, Every: c.Keeper.ReapInterval.Duration(), Batch: c.Keeper.ReapBatch}.Rounds())
	settle := cmp.Or(c.Reconcile.Probe.Settle.Duration(), stet.Never)
	try(reconcile.Reconciler{Engine: e, Resolver: reconcile.Probe{}.Resolve, Every: c.Reconcile.Interval.Duration(), MaxProbes: c.Reconcile.MaxProbes,
		Settle: settle}.Rounds())
	if p := c.Reconcile.Probe; p.checkStatus() == nil {
		probe := reconcile.Probe{URL: "http://127.0.0.1:1/{key}", Found: p.FoundStatus, Missing: p.MissingStatus, Status: p.Respond.Status}
		errs = append(errs, probe.Validate())
	}
	upstream := cmp.Or(c.UpstreamTimeout.Duration(), stet.Never)
	try(gateway.New(e, gateway.Config{Upstream: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, UpstreamTimeout: upstream,
		UpstreamIdleTimeout: c.UpstreamIdle.Duration()}))
	try(gateway.NewServer(gateway.ServerConfig{Listen: "no address", Handler: http.NotFoundHandler(), ReadHeaderTimeout: c.ReadHeaderTimeout.Duration(),
		ReadTimeout: c.ReadTimeout.Duration(), WriteTimeout: c.WriteTimeout.Duration(), DrainDelay: c.DrainDelay.Duration(),
		MaxHeaderBytes: c.Limits.MaxRequestHeaderBytes}))
	for _, err := range errs {
		if errors.As(err, new(*bounds.Error)) {
			return err
		}
	}
	return nil
}
