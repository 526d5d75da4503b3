package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// The files beside the pages. htmx and idiomorph are as their authors published them, with their
// licences.
//
//go:embed assets
var assetFiles embed.FS

// asset is a file under an address that changes with its content, so that browsers may keep it.
type asset struct {
	body []byte
	kind string
}

// kinds are the media types of the files. The system's table may have others.
var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml"}

type assets struct {
	files     map[string]asset  // by the last segment of the address
	addresses map[string]string // by the name of the file
}

func loadAssets() assets {
	a := assets{map[string]asset{}, map[string]string{}}
	err := fs.WalkDir(assetFiles, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := assetFiles.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		base := path.Base(name)
		ext := path.Ext(base)
		kind, known := kinds[ext]
		if !known {
			ext, kind = "", "text/plain; charset=utf-8" // a licence
		}
		under := strings.TrimSuffix(base, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a.files[under], a.addresses[base] = asset{body, kind}, "/assets/"+under
		return nil
	})
	if err != nil {
		panic("console: the files are built in: " + err.Error())
	}
	return a
}

// address is where a file is.
func (a *assets) address(file string) string {
	at, ok := a.addresses[file]
	if !ok {
		panic("console: there is no file " + file)
	}
	return at
}

// serve answers GET /assets/{file}. The files are public: they say nothing of what is stored.
func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	f, ok := a.files[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(f.body)
}
