package console

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
)

// The files beside the pages. htmx and idiomorph are as their authors published them, with their
// licences.
//
//go:embed assets
var assetFiles embed.FS

// kinds are the media types of the files. The system's table may have others.
var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml"}

// assets are where the files are, by their names: an address changes with the content, so that
// browsers may keep it.
type assets map[string]string

func loadAssets() assets {
	a := assets{}
	files, err := assetFiles.ReadDir("assets")
	for _, f := range files {
		body, bad := assetFiles.ReadFile("assets/" + f.Name())
		sum := sha256.Sum256(body)
		a[f.Name()], err = fmt.Sprintf("/assets/%x/%s", sum[:6], f.Name()), cmp.Or(err, bad)
	}
	if err != nil {
		panic("console: the files are built in: " + err.Error())
	}
	return a
}

// serve answers GET /assets/{version}/{file}. The files are public: they say nothing of what is
// stored.
func (a assets) serve(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	if a[file] != r.URL.Path {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", cmp.Or(kinds[path.Ext(file)], "text/plain; charset=utf-8")) // or it is a licence
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, assetFiles, "assets/"+file)
}
