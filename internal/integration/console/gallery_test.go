package console

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// gallery compares each page with how it looked before.
//
// A page is frozen first: instants, ages, ids and addresses are the same in each run. Then its
// picture is made so small that a letter is less than a dot: what is compared is where things
// stand, how large they are, and their colours, not how a version of the browser draws letters.
// testdata/pages has these small pictures. A test fails where more than three dots in two hundred
// have another colour, and says where the new picture is. A change that is meant is accepted with
//
//	make screenshots
//
// which writes the small pictures anew, the large ones into bin/console to be looked at, and those
// of the documentation into docs/images/console.
//
// Other fonts have other widths, and move everything: testdata/fonts has those of the stored
// pictures, and on a machine with others nothing is compared, which the test says. Debian's
// chromium brings the same fonts to every fresh machine.
type gallery struct {
	*browser
	shots string // where the large ones go, where they are asked for
	skip  bool   // these are not the fonts of the stored pictures
	wrong string // where the new pictures of pages that differ go
}

const (
	stored = "testdata/pages"
	dot    = 8 // pixels of the page
	zoom   = 4 // of them are one of the picture that is compared: large ones take long to decode
)

// fonts measures the fonts of the pages.
const fonts = `['sans', 'mono'].map(f => { const c = document.createElement('canvas').getContext('2d');
	c.font = '100px ' + getComputedStyle(document.documentElement).getPropertyValue('--' + f); return f + ' ' + c.measureText('Hamburgefonts 0123').width.toFixed(2); }).join('\n')`

func openGallery(t *testing.T, b *browser) *gallery {
	t.Helper()
	g := &gallery{browser: b, shots: os.Getenv("STET_SHOTS")}
	b.visit("/")
	these := is[string](b, fonts) + "\n"
	file := filepath.Join("testdata", "fonts")
	if g.shots != "" {
		for _, dir := range []string{g.shots, stored} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(file, []byte(these), 0o644); err != nil {
			t.Fatal(err)
		}
		return g
	}
	were, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if g.skip = string(were) != these; g.skip {
		t.Logf("this machine has other fonts, so that no picture is compared:\n%s, not\n%s", these, were)
	}
	return g
}

// take compares the page as it is now, or writes its pictures where that is asked for.
func (g *gallery) take(name, look string) {
	g.Helper()
	if g.skip {
		return
	}
	small := shrink(g.TB, g.picture(1./zoom))
	file := name + "-" + look + ".png"
	if g.shots != "" {
		g.save(filepath.Join(g.shots, file), g.picture(1))
		var b bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small); err != nil {
			g.Fatal(err)
		}
		g.save(filepath.Join(stored, file), b.Bytes())
		return
	}
	f, err := os.Open(filepath.Join(stored, file))
	if err != nil {
		g.Errorf("%s has no picture yet: make screenshots makes one", file)
		return
	}
	defer f.Close()
	before, err := png.Decode(f)
	if err != nil {
		g.Fatal(err)
	}
	if d := differ(before, small); d != "" {
		if g.wrong == "" {
			if g.wrong, err = os.MkdirTemp("", "stet-pages-"); err != nil {
				g.Fatal(err)
			}
		}
		g.save(filepath.Join(g.wrong, file), g.picture(1))
		g.Errorf("%s looks otherwise: %s\nlook at %s; make screenshots accepts it", file, d, filepath.Join(g.wrong, file))
	}
}

// picture is the whole page, in full dots.
func (g *gallery) picture(scale float64) (shot []byte) {
	g.Helper()
	g.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, _, _, _, _, all, err := page.GetLayoutMetrics().Do(ctx)
		if err != nil {
			return err
		}
		full := func(side float64) float64 { return float64(int(side) / dot * dot) }
		shot, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithFromSurface(true).
			WithClip(&page.Viewport{Width: full(all.Width), Height: full(all.Height), Scale: scale}).Do(ctx)
		return err
	}))
	return shot
}

func (g *gallery) save(file string, text []byte) {
	g.Helper()
	if err := os.WriteFile(file, text, 0o644); err != nil {
		g.Fatal(err)
	}
}

// shrink makes a dot of dot by dot pixels of the page.
func shrink(t testing.TB, large []byte) *image.RGBA {
	t.Helper()
	const dot = dot / zoom
	in, err := png.Decode(bytes.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	size := in.Bounds()
	var pixels []uint8
	switch in := in.(type) {
	case *image.RGBA:
		pixels = in.Pix
	case *image.NRGBA: // which has no transparency
		pixels = in.Pix
	default:
		t.Fatalf("a picture of %T", in)
	}
	out := image.NewRGBA(image.Rect(0, 0, size.Dx()/dot, size.Dy()/dot))
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			var sum [3]int
			for py := range dot {
				row := pixels[((y*dot+py)*size.Dx()+x*dot)*4:]
				for px := range dot {
					sum[0], sum[1], sum[2] = sum[0]+int(row[px*4]), sum[1]+int(row[px*4+1]), sum[2]+int(row[px*4+2])
				}
			}
			out.SetRGBA(x, y, color.RGBA{uint8(sum[0] / dot / dot), uint8(sum[1] / dot / dot), uint8(sum[2] / dot / dot), 255})
		}
	}
	return out
}

// differ says how two small pictures differ, if that is more than letters are worth.
func differ(a, b image.Image) string {
	w, h := min(a.Bounds().Dx(), b.Bounds().Dx()), min(a.Bounds().Dy(), b.Bounds().Dy())
	if a.Bounds().Dx() != b.Bounds().Dx() || a.Bounds().Dy()-h > 2 || b.Bounds().Dy()-h > 2 {
		return fmt.Sprintf("it has %v dots, not %v", b.Bounds().Size(), a.Bounds().Size())
	}
	n, first := 0, ""
	for y := range h {
		for x := range w {
			r1, g1, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			if far(r1, r2) || far(g1, g2) || far(b1, b2) {
				if n++; n == 1 {
					first = fmt.Sprintf("the first at %d, %d px", x*dot, y*dot)
				}
			}
		}
	}
	if n*67 > w*h {
		return fmt.Sprintf("%d of %d dots, %s", n, w*h, first)
	}
	return ""
}

func far(a, b uint32) bool { return max(a, b)-min(a, b) > 24<<8 }

// show makes the pictures of the documentation: whole windows, with their curves.
func (g *gallery) show(pages [][2]string) {
	g.Helper()
	if g.shots == "" {
		return
	}
	dir := filepath.Join("..", "..", "..", "docs", "images", "console")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		g.Fatal(err)
	}
	for _, p := range pages {
		var look string
		for _, wanted := range []string{"overview light", "unknown light", "key light", "unknown dark"} {
			if name, l, _ := strings.Cut(wanted, " "); name != p[0] {
				continue
			} else if look = l; look == "dark" {
				g.look(narrow, look)
			} else {
				g.look(wide, look)
			}
			g.visit(p[1])
			g.do(chromedp.Evaluate(nameless, nil))
			var shot []byte
			g.do(chromedp.CaptureScreenshot(&shot))
			if len(shot) > 180<<10 {
				g.Errorf("the picture of %s has %d bytes", p[0], len(shot))
			}
			g.save(filepath.Join(dir, p[0]+"-"+look+".png"), shot)
		}
	}
}

// nameless takes this machine's names out of a page.
const nameless = `(() => {
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let t = walk.nextNode(); t; t = walk.nextNode()) t.data = t.data.replace(/sqlite:\S+/g, 'sqlite:stet.db').replace(/\b[a-z][\w.-]*:\d{2,}\b/gi, 'gw-1:1');
	document.querySelector('#main').dataset.live = '';
})()`

// A difference that a reader would see is one, and that of a few letters is none.
func TestDiffer(t *testing.T) {
	picture := func(at, n int, c color.RGBA) *image.RGBA {
		i := image.NewRGBA(image.Rect(0, 0, 160, 100))
		for j := range 160 * 100 {
			i.SetRGBA(j%160, j/160, color.RGBA{250, 250, 248, 255})
		}
		for j := at; j < at+n; j++ {
			i.SetRGBA(j%160, j/160, c)
		}
		return i
	}
	black := color.RGBA{0, 0, 0, 255}
	before := picture(0, 400, black)
	for what, c := range map[string]struct {
		now  *image.RGBA
		want bool
	}{
		"the same":               {picture(0, 400, black), false},
		"a few letters":          {picture(0, 420, black), false},
		"another place":          {picture(800, 400, black), true},
		"a shade":                {picture(0, 400, color.RGBA{10, 10, 10, 255}), false},
		"another colour":         {picture(0, 400, color.RGBA{200, 0, 0, 255}), true},
		"a line more, and lower": {image.NewRGBA(image.Rect(0, 0, 160, 103)), true},
	} {
		if d := differ(before, c.now); (d != "") != c.want {
			t.Errorf("%s: %q", what, d)
		}
	}
}
