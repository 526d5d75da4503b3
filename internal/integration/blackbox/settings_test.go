package blackbox

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// settings is the part of a gateway's configuration file that a program can do with the middleware
// alone. The middleware has no file: here, and only here, the file's words are translated into its
// Config, so that one case says its policy once.
type settings struct {
	H2C         bool    `yaml:"h2c"`
	ReadTimeout float64 `yaml:"read_timeout_s"`
	Store       struct {
		Timeout float64 `yaml:"timeout_s"`
	}
	Policy map[string]yaml.Node
	Limits struct {
		NewKeysPerSecond float64 `yaml:"new_keys_per_second"`
		Burst            int
		MaxKeysPerScope  int     `yaml:"max_keys_per_scope"`
		MaxKeys          int     `yaml:"max_keys"`
		LookupsPerSecond float64 `yaml:"lookups_per_second"`
	}
	Routes []struct {
		Match, Mode string
		Policy      map[string]yaml.Node
	}
}

func readSettings(text string) (s settings, err error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	return s, nil
}

// config is the middleware's Config for requests that no route matches.
func (s *settings) config() (stethttp.Config, error) { return s.translate(s.Policy) }

// route is the middleware's Config for route i: its keys beat those of the whole.
func (s *settings) route(i int) (stethttp.Config, error) {
	r := s.Routes[i]
	c, err := s.translate(s.Policy, r.Policy)
	c.Route = r.Match
	if err == nil {
		c.Mode, err = word[stethttp.Mode](r.Mode, "", "off", "shadow", "optional", "required")
	}
	return c, err
}

func (s *settings) translate(layers ...map[string]yaml.Node) (c stethttp.Config, err error) {
	profile := "default"
	for _, keys := range layers {
		if v, ok := keys["profile"]; ok {
			profile = v.Value
		}
	}
	if c, err = stethttp.Profile(profile); err != nil {
		return c, err
	}
	for _, keys := range layers {
		for name, v := range keys {
			if err := setting(&c, name, &v); err != nil {
				return c, fmt.Errorf("policy.%s: %w", name, err)
			}
		}
	}
	c.BodyTimeout = seconds(s.ReadTimeout)
	c.Limits = stethttp.NewLimits(stethttp.LimitsConfig{NewKeysPerSecond: s.Limits.NewKeysPerSecond, Burst: s.Limits.Burst,
		MaxKeysPerScope: s.Limits.MaxKeysPerScope, MaxKeys: s.Limits.MaxKeys, LookupsPerSecond: s.Limits.LookupsPerSecond})
	return c, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// word is the position of a word among those a setting may be, which is the order of its constants.
func word[T ~uint8](v string, words ...string) (T, error) {
	i := slices.Index(words, v)
	if i < 0 {
		return 0, fmt.Errorf("%q is none of %q", v, words)
	}
	return T(i), nil
}

// setting translates one key of the policy section. Keys that no case uses are not here.
func setting(c *stethttp.Config, name string, v *yaml.Node) (err error) {
	duration := func(to *time.Duration) error {
		var s float64
		err := v.Decode(&s)
		*to = seconds(s)
		return err
	}
	switch name {
	case "profile":
		return nil
	case "enabled_methods":
		return v.Decode(&c.EnabledMethods)
	case "default_ttl_s":
		return duration(&c.Policy.Retain)
	case "lease_s":
		return duration(&c.Policy.Lease)
	case "execution_timeout_s":
		return duration(&c.Policy.Execution)
	case "wait_timeout_s":
		return duration(&c.WaitTimeout)
	case "retry_after_max_s":
		return duration(&c.RetryAfterMax)
	case "max_request_age_s":
		return duration(&c.MaxRequestAge)
	case "max_body_bytes":
		return v.Decode(&c.MaxBody)
	case "max_response_bytes":
		return v.Decode(&c.MaxResponse)
	case "early_data":
		return v.Decode(&c.EarlyData)
	case "on_expired":
		if v.Value == "reject" {
			c.Policy.KeepExpired = 30 * day
		}
		return nil
	case "fail_mode":
		c.FailOpen = v.Value == "open"
		return nil
	case "wait_policy":
		c.Waiting, err = word[stethttp.Waiting](v.Value, "no-wait", "wait", "accepted")
	case "on_lease_expiry":
		c.Policy.OnLapse, err = word[stet.LapseRule](v.Value, "unknown", "resume", "reexecute")
	case "on_5xx":
		c.On5xx, err = word[stethttp.On5xx](v.Value, "replay", "release", "unknown")
	case "status_outcome":
		c.StatusOutcome = map[int]stet.State{}
		words := map[int]string{}
		err = v.Decode(&words)
		for status, w := range words {
			c.StatusOutcome[status] = map[string]stet.State{"completed": stet.Completed, "unknown": stet.Unknown, "not-executed": stet.Retryable}[w]
		}
	case "trust_header":
		c.TrustHeader = v.Value
	case "on_panic":
		c.OnPanic, err = word[stethttp.OnPanic](v.Value, "unknown", "release", "replay")
	case "on_oversize":
		c.OnOversize, err = word[stethttp.OnOversize](v.Value, "tombstone", "omit-body")
	case "key":
		var k struct {
			MaxLen int `yaml:"max_len"`
		}
		err = v.Decode(&k)
		c.Key.MaxLen = k.MaxLen
	case "fingerprint":
		return fingerprinting(c, v)
	case "replay":
		var r struct {
			KeepSetCookie bool `yaml:"keep_set_cookie"`
		}
		err = v.Decode(&r)
		c.Replay.KeepSetCookie = r.KeepSetCookie
	default:
		return errors.New("no case needed this so far: translate it here")
	}
	return err
}

func fingerprinting(c *stethttp.Config, v *yaml.Node) error {
	var f struct {
		Body            *stet.BodyMode
		Fields, Headers []string
		Decode          bool
	}
	if err := v.Decode(&f); err != nil {
		return err
	}
	if f.Body != nil {
		c.Fingerprint.Body = *f.Body
	}
	if f.Headers != nil {
		c.Fingerprint.Headers = f.Headers
	}
	c.Fingerprint.Fields, c.Fingerprint.Decode = f.Fields, f.Decode
	return nil
}

// Every policy a case names has to be one the translation knows.
func TestSettings(t *testing.T) {
	for _, row := range families() {
		if row.Only == "gateway" {
			continue
		}
		s, err := readSettings(row.Policy)
		if err == nil {
			_, err = s.config()
		}
		for i := range s.Routes {
			if err == nil {
				_, err = s.route(i)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", row.ID, err)
		}
	}
}
