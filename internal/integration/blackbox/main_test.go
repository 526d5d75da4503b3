package blackbox

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/stet-dev/stet/internal/integration/testserver"
)

// TestMain runs the suite and fails it if a goroutine outlives it.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "stet-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := flag.Set("test.parallel", "4"); err != nil { // cases wait more than they work; -parallel still overrides it
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries.dir = dir
	binaries.plain, binaries.fault = build("stet"), build("stet-fault", "-tags", "stetfault")
	goleak.VerifyTestMain(stopping{m}, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// stopping ends the servers before anybody looks for what is left.
type stopping struct{ *testing.M }

func (s stopping) Run() int { return testserver.Main(s.M) }
