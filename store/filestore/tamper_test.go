package filestore

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest"
)

// Tamper is what another program may do to a record: it puts another file in the place of the
// record's.
func Tamper(t testing.TB, store stet.Store, id stet.ID, with storetest.Tampering) {
	t.Helper()
	s, at := store.(*Store), pathOf(nameOf(id))
	b, err := s.root.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	r, err := decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if with.Version != 0 {
		r.Version = with.Version
	}
	r.CreatedAt, r.UpdatedAt = r.CreatedAt.Add(with.Ahead), r.UpdatedAt.Add(with.Ahead)
	if !r.DueAt.IsZero() {
		r.DueAt = r.DueAt.Add(with.Ahead)
	}
	if !r.CompletedAt.IsZero() {
		r.CompletedAt = r.CompletedAt.Add(with.Ahead)
	}
	if b, err = encode(&r); err != nil {
		t.Fatal(err)
	}
	if with.Format {
		held := bytes.Replace(b[:len(b)-sealLen], opening, fmt.Appendf(nil, "{\n  \"schema\": %d,\n", schema+1), 1)
		b = fmt.Appendf(held, sealFormat, crc32.Checksum(held, castagnoli))
	}
	if err := s.root.WriteFile(tmpDir+"/tampered", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.root.Rename(tmpDir+"/tampered", at); err != nil {
		t.Fatal(err)
	}
}
