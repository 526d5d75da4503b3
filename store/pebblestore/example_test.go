package pebblestore_test

import (
	"fmt"
	"os"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/pebblestore"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "stet")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := pebblestore.Open(dir, pebblestore.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	engine, err := stet.New(store, stet.Config{})
	fmt.Println(engine != nil, err)
	// Output: true <nil>
}
