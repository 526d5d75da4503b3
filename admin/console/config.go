package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stet-dev/stet/admin"
)

// configView is what is in force, by the part of the file that it is in.
type configView struct {
	Parts   []configPart
	Pending []admin.Setting
	Changed int
	Only    bool // those that are not default
}

type configPart struct {
	Name     string
	Settings []admin.Setting
}

// config draws GET /config.
func (p *page) config() error {
	var doc configDoc
	if err := p.get("/api/v1/config", &doc); err != nil {
		return err
	}
	d := configView{Only: p.Is("changed", "1")}
	parts := map[string][]admin.Setting{}
	var order []string
	for _, s := range doc.Settings {
		if s.Pending != "" {
			d.Pending = append(d.Pending, s)
		}
		if !isDefault(s) {
			d.Changed++
		} else if d.Only {
			continue
		}
		name, _, deeper := strings.Cut(s.Path, ".")
		if !deeper {
			name = "the process"
		}
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
		parts[name] = append(parts[name], s)
	}
	for _, name := range order {
		d.Parts = append(d.Parts, configPart{name, parts[name]})
	}
	return p.render(http.StatusOK, "config", view{Title: "Config", D: d})
}

func isDefault(s admin.Setting) bool { return s.Origin == "" || s.Origin == "default" }
