package sqlstore_test

import (
	"fmt"
	"strings"

	"github.com/stet-dev/stet/store/sqlstore"
)

func ExampleSQLiteDSN() {
	file, settings, _ := strings.Cut(sqlstore.SQLiteDSN("stet.db"), "?")
	fmt.Println(file)
	for setting := range strings.SplitSeq(settings, "&") {
		fmt.Println(setting)
	}
	// Output:
	// file:stet.db
	// _pragma=journal_mode(WAL)
	// _pragma=synchronous(FULL)
	// _pragma=busy_timeout(5000)
	// _pragma=wal_autocheckpoint(4000)
	// _pragma=fullfsync(1)
	// _txlock=immediate
}
