// Package console holds the console of the built gateway against a real browser.
//
// Each test has gateways of its own: processes on one SQLite file, in front of an API in the test's
// process. One Chromium serves all tests, with a profile of its own for each window, so that they
// run in parallel. Whatever a window's console, network or pages say fails the test: see browser.
package console

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet/internal/integration/testserver"
)

// once are what all tests share. They are made by the first test that asks.
var once struct {
	dir     string
	end     func() // of Chromium
	gateway func() (string, error)
	browser func() (context.Context, error)
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "stet-console-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	once.dir, once.end = dir, func() {}
	once.gateway, once.browser = sync.OnceValues(build), sync.OnceValues(chromium)
	status := testserver.Main(m)
	once.end()
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

// build builds the gateway as make build does, while Chromium starts.
func build() (string, error) {
	var other sync.WaitGroup
	other.Go(func() { _, _ = once.browser() })
	defer other.Wait()
	out := filepath.Join(once.dir, "stet")
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "./stet")
	cmd.Dir = filepath.Join("..", "..", "..", "cmd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the gateway: %w\n%s", err, said)
	}
	return out, nil
}

// chromium starts the browser; nil means that there is none.
func chromium() (context.Context, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("font-render-hinting", "none"),
			chromedp.WindowSize(1280, 900))
		alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
		ctx, end := chromedp.NewContext(alloc)
		once.end = func() { end(); endAlloc() }
		return ctx, chromedp.Run(ctx)
	}
	return nil, nil
}

// theBrowser is Chromium, or skips the test where there is none.
func theBrowser(t testing.TB) context.Context {
	t.Helper()
	ctx, err := once.browser()
	switch {
	case err != nil:
		t.Fatal(err)
	case ctx == nil && os.Getenv("REQUIRE_SERVERS") != "":
		t.Fatal("there is no chromium: make tools installs it")
	case ctx == nil:
		t.Skip("there is no chromium: make tools installs it")
	}
	return ctx
}
