package localdisk

import "testing"

// What is not known to be a disk of this machine is none.
func TestHas(t *testing.T) { // R07
	for _, path := range []string{"/proc", "/sys", "/no/such/file"} {
		if Has(path) {
			t.Errorf("%s is taken for a disk", path)
		}
	}
	if dir := t.TempDir(); !Has(dir) {
		t.Logf("%s is on a file system that is not in the list", dir)
	}
}
