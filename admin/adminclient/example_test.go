package adminclient_test

import (
	"context"
	"fmt"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/admin/adminclient"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// A service looks through its own records. For a gateway's, adminclient.New takes the address of
// the admin listener and a token.
func Example() {
	engine, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		panic(err)
	}
	client := adminclient.InProcess(admin.New(engine, admin.Config{}), nil, "")
	defer client.Close()

	waiting := 0
	for record, err := range client.Keys(operate.RecordQuery{Filter: operate.Filter{State: "unknown"}}).All(context.Background()) {
		if err != nil {
			panic(err)
		}
		fmt.Println(record.ID, record.Cause)
		waiting++
	}
	fmt.Println(waiting, "records wait for a decision")
	// Output: 0 records wait for a decision
}
