package config

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// TestBoundsAreInTheTable walks the configuration: every setting that bounds something is a row of
// docs/threats.md, with its default.
func TestBoundsAreInTheTable(t *testing.T) { // C11
	doc, err := os.ReadFile("../../../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	bounds(reflect.TypeFor[File](), "", func(path, def string) {
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

// bounds visits the settings of limits, and all that are a most of something but time. Those of
// routes are those of the policy.
func bounds(t reflect.Type, prefix string, visit func(path, def string)) {
	for f := range t.Fields() {
		key := f.Tag.Get("yaml")
		path := join(prefix, key)
		switch most := strings.HasPrefix(key, "max_") && !strings.HasSuffix(key, "_s"); {
		case f.Type.Kind() == reflect.Struct:
			bounds(f.Type, path, visit)
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
