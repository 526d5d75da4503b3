package config

import (
	"cmp"
	"fmt"
	"reflect"
)

// Change is a setting in which two configurations differ.
type Change struct {
	Path string // such as policy.key.min_len, or routes[POST /v1/payments].mode
	// Was and Is are the values as [Config.Show] writes them, and so without what is secret. Where
	// nothing of the difference may be shown, as of a password or of what is in a file, Is is
	// changed.
	Was, Is string
	Restart string // why a reload does not put it in force; "" if it does
}

// Values of a [Change] that stand for something else.
const (
	changed = "changed" // another, which is not shown
	present = "present" // a section or a route that the other configuration does not have
	absent  = "absent"
)

// Diff lists the settings in which two configurations differ, in the order of the file. What files
// hold is compared as [Config.Stamp] found it. Routes are compared by their patterns, and what a
// route only has from the file's policy is not listed once more.
func Diff(was, is *Config) []Change {
	d := differ{was: was.stamps, is: is.stamps}
	d.fields(reflect.ValueOf(&was.File).Elem(), reflect.ValueOf(&is.File).Elem(), "")
	return d.changes
}

type differ struct {
	was, is stamps
	changes []Change
}

func (d *differ) fields(was, is reflect.Value, path string) {
	for i := range was.NumField() {
		tag := was.Type().Field(i).Tag
		a, b := field{was.Field(i), tag}, field{is.Field(i), tag}
		if !a.instead(was) || !b.instead(is) {
			d.field(a, b, join(path, tag.Get("yaml")))
		}
	}
}

func (d *differ) field(was, is field, path string) {
	switch was.kind() {
	case section:
		d.fields(was.Value, is.Value, path)
	case optional:
		switch {
		case was.IsNil() && !is.IsNil():
			d.add(is, path, absent, present)
		case !was.IsNil() && is.IsNil():
			d.add(is, path, present, absent)
		case !was.IsNil():
			d.fields(was.Elem(), is.Elem(), path)
		}
	case routes:
		d.routes(was, is, path)
	case setting:
		switch a, b := format(was.Value), format(is.Value); {
		case a != b:
			if a, b = was.text(), is.text(); a == b {
				b = changed
			}
			d.add(is, path, a, b)
		case was.tag.Get("file") != "" && d.was[path] != d.is[path]:
			d.changes = append(d.changes, Change{Path: path, Was: was.text(), Is: changed, Restart: is.late("file")})
		}
	}
}

func (d *differ) add(f field, path, was, is string) {
	d.changes = append(d.changes, Change{Path: path, Was: was, Is: is, Restart: f.late("reload")})
}

// late is why a change takes a restart; "" if it does not.
func (f field) late(tag string) string {
	if f.tag.Get(tag) == "live" {
		return ""
	}
	return cmp.Or(f.tag.Get("why"), "it is read at the start")
}

// routes compares those of the same pattern, wherever they stand: the most specific one wins, not
// the first.
func (d *differ) routes(was, is field, path string) {
	said := map[Change]bool{} // of the file's policy
	for _, c := range d.changes {
		said[c] = true
	}
	before, now := was.Interface().([]Route), is.Interface().([]Route)
	old := map[string]*Route{}
	for i := range before {
		old[before[i].Match] = &before[i]
	}
	for i := range now {
		r := &now[i]
		name := fmt.Sprintf("%s[%s]", path, r.Match)
		o, ok := old[r.Match]
		if !ok {
			d.add(is, name, absent, present)
			continue
		}
		delete(old, r.Match)
		own := differ{}
		own.fields(reflect.ValueOf(o).Elem(), reflect.ValueOf(r).Elem(), "")
		for _, c := range own.changes {
			if !said[c] {
				c.Path = join(name, c.Path)
				d.changes = append(d.changes, c)
			}
		}
	}
	for i := range before {
		if match := before[i].Match; old[match] != nil {
			d.add(was, fmt.Sprintf("%s[%s]", path, match), present, absent)
		}
	}
}
