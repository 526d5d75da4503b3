package pebblestore

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// roomy is a disk with much room, on which something may happen while it is looked at.
type roomy struct {
	vfs.FS
	looks, makes func()
}

func (d *roomy) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.looks != nil {
		d.looks()
	}
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}

func (d *roomy) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if d.makes != nil {
		d.makes()
	}
	return d.FS.Create(name, c)
}

// LM-08: when a write finds the disk full, the ballast gives way and stays away for some time,
// whatever one sees who looks at the disk meanwhile.
func TestBallastGivesWay(t *testing.T) {
	disk := &roomy{FS: vfs.NewMem()}
	if err := disk.MkdirAll("store", 0o700); err != nil {
		t.Fatal(err)
	}
	var m room
	m.init(disk, "store", 1<<20)
	check := func(when string, tight, there bool) {
		t.Helper()
		_, err := disk.Stat(disk.PathJoin("store", ballast))
		if m.tight.Load() != tight || (err == nil) != there {
			t.Errorf("%s: refuses new keys %v, want %v; the ballast is there %v, want %v", when, m.tight.Load(), tight, err == nil, there)
		}
	}
	check("at first", false, true)
	disk.looks = m.exhausted
	m.look()
	check("full while it was looked at", true, false)
	disk.looks = nil
	m.look()
	check("soon after", false, false)
	m.since = m.since.Add(-loadAfter)
	m.look()
	check("later", false, true)
	m.exhausted()
	check("full", true, false)
	m.look()
	m.since, disk.makes = m.since.Add(-loadAfter), m.exhausted
	m.look()
	check("full while the ballast was made", true, false)
}

func TestNegativeReserve(t *testing.T) {
	for _, c := range []Config{{Reserve: -1}, {Cache: -1}} {
		c.fs = vfs.NewMem()
		if _, err := Open("store", c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
