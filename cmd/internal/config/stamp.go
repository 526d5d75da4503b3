package config

import (
	"crypto/sha256"
	"io"
	"os"
	"reflect"
)

// stamps are what files held, by the settings that name them.
type stamps map[string][sha256.Size]byte

// Stamp notes what the files hold that settings name, so that [Diff] sees a change. A file that
// cannot be read is like an empty one: who needs what is in it says so. Call it before the files
// are read for use: then a change in between is seen the next time.
func (c *Config) Stamp() {
	c.stamps = stamps{}
	settings(reflect.ValueOf(&c.File).Elem(), "", func(f field, path string, _ reflect.Value) {
		if f.tag.Get("file") != "" && f.String() != "" {
			c.stamps[path] = stampOf(f.String())
		}
	})
}

// stampOf reads no more than any of the files may have.
func stampOf(name string) (sum [sha256.Size]byte) {
	f, err := os.Open(name)
	if err != nil {
		return sum
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxFile)); err == nil {
		h.Sum(sum[:0])
	}
	return sum
}

// Hold sets what takes a restart to what it was at the start, so that c is what a reload can put in
// force. The error says, as that of [Load], what is wrong with the others beside those.
func (c *Config) Hold(started *Config) error {
	hold(reflect.ValueOf(&c.File).Elem(), reflect.ValueOf(&started.File).Elem())
	return c.check().Err()
}

func hold(is, started reflect.Value) {
	for i := range is.NumField() {
		f, was := field{is.Field(i), is.Type().Field(i).Tag}, started.Field(i)
		switch kind := f.kind(); {
		case kind == section:
			hold(f.Value, was)
		case kind == optional && !f.IsNil() && !was.IsNil():
			hold(f.Elem(), was.Elem())
		case kind != routes && f.tag.Get("reload") != "live":
			f.Set(was)
		}
	}
}
