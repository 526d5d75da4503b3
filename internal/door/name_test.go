package door

import (
	"net/http"
	"strings"
	"testing"
)

func TestName(t *testing.T) { // H05, C13
	for sent, want := range map[string]string{
		"X-Tenant-Id": "X-Tenant-Id", "x-tenant-id": "X-Tenant-Id", "X_Tenant_Id": "X-Tenant-Id", "X.tenant.id": "X-Tenant-Id",
		"x~tenant!id": "X-Tenant-Id", "STET.FENCE": "Stet-Fence", "Stet_fence": "Stet-Fence", "Idempotency'key": "Idempotency-Key",
		"Etag": "Etag", "X-2fa": "X-2fa", "": "", "-": "-", "A--B": "A--B", "_x": "-X",
	} {
		if got := Name(sent); got != want {
			t.Errorf("%q is %q, want %q", sent, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Name("X-Forwarded-For"); Name("Content-Type") }); n != 0 {
		t.Errorf("%v allocations for names in form", n)
	}
}

func FuzzName(f *testing.F) {
	f.Add("X.Tenant_Id")
	f.Add("x-2FA-é")
	f.Fuzz(func(t *testing.T, name string) {
		form := Name(name)
		if Name(form) != form || len(form) != len(name) {
			t.Fatalf("%q has the form %q, which has the form %q", name, form, Name(form))
		}
		hyphens := strings.Map(func(c rune) rune {
			if c < 0x80 && !letter(byte(c)) && !digit(byte(c)) {
				return '-'
			}
			return c
		}, name)
		ascii := !strings.ContainsFunc(name, func(c rune) bool { return c >= 0x80 })
		if want := http.CanonicalHeaderKey(hyphens); ascii && form != want {
			t.Fatalf("%q has the form %q, want %q", name, form, want)
		}
	})
}
