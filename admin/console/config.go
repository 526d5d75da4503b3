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

// drawConfig draws GET /config.
func drawConfig(p *page) error {
	doc, err := tidied(p.api.Settings(p.ctx()))
	if err != nil {
		return err
	}
	d := configView{Only: p.Is("changed", "1")}
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
		i := slices.IndexFunc(d.Parts, func(part configPart) bool { return part.Name == name })
		if i < 0 {
			i, d.Parts = len(d.Parts), append(d.Parts, configPart{Name: name})
		}
		d.Parts[i].Settings = append(d.Parts[i].Settings, s)
	}
	return p.render(http.StatusOK, "config", view{Title: "Config", D: d})
}

func isDefault(s admin.Setting) bool { return s.Origin == "" || s.Origin == "default" }
