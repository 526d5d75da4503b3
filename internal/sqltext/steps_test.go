package sqltext

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"testing"
)

// A step is never edited: databases have taken it, and an edited one makes another schema of a new
// database than of an old one. A change is a new step, whose sum is added here.
func TestStepsAreNotEdited(t *testing.T) { // S12
	for dialect, taken := range map[string][]string{
		"sqlite":   {"0a71f3d929ab647c", "64e9fd8bfe97f1f6", "1a24f104cad80745", "188a41b185e47a4f"},
		"mysql":    {"8ba3feb7ee2032d9", "1c7fc46f23e63ad3", "acc1798951654896", "1fb0845979b63e9d"},
		"postgres": {"8d3d3fc5207c01ab", "12149b9861ac3986", "4e85cd35d4161ebc", "5e43c27128e8b083"},
	} {
		steps := Steps(dialect)
		if len(steps) != len(taken) {
			t.Errorf("%s has %d steps, of which %d are known", dialect, len(steps), len(taken))
		}
		for i, step := range steps {
			if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(step)))[:16]; i >= len(taken) || sum != taken[i] {
				t.Errorf("step %d of %s has the sum %s", i+1, dialect, sum)
			}
		}
	}
}

// A step of a later release says which is the oldest program that works with it.
func TestStepsSayWhoWorksWithThem(t *testing.T) { // S12
	says := regexp.MustCompile(`(?m)^INSERT INTO stet_schema \(version\) VALUES \(-\d+\);$`)
	for _, dialect := range []string{"sqlite", "mysql", "postgres"} {
		for i, step := range Steps(dialect) {
			if i >= 4 && !says.MatchString(step) {
				t.Errorf("step %d of %s does not", i+1, dialect)
			}
		}
	}
}

func TestMigration(t *testing.T) { // S12, N09
	for m, works := range map[Migration]bool{
		{Have: 4, Want: 4}:            true,
		{Have: 3, Want: 4}:            false,
		{Have: 0, Want: 4}:            false,
		{Have: 5, Want: 4}:            false,
		{Have: 5, Want: 4, Oldest: 4}: true,
		{Have: 9, Want: 4, Oldest: 3}: true,
		{Have: 5, Want: 4, Oldest: 5}: false,
	} {
		if err := m.Check("pkg", nil); (err == nil) != works {
			t.Errorf("%+v: %v", m, err)
		}
	}
}
