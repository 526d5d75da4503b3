package chaos

import (
	"fmt"
	"io"
	"strings"
)

const columns = "%4s  %-32s  %-20s  %-28s  %7s  %s\n"

func tableHead(out io.Writer) {
	fmt.Fprintf(out, columns, "", "killed before", "left behind", "the client saw", "charged", "how it ended")
}

func (o outcome) row(out io.Writer, number int) {
	fmt.Fprintf(out, columns, fmt.Sprint(number), o.died, o.behind, strings.Join(o.saw, ", "), fmt.Sprint(o.effects), o.ending())
}

func (o outcome) ending() string {
	switch {
	case o.wrong != nil:
		return "WRONG: " + o.wrong.Error()
	case o.effects != 1:
		return "WRONG: " + o.resolved
	}
	return o.resolved
}

// Sum is the last line.
func (r result) Sum() string {
	return fmt.Sprintf("effects: %d, duplicates: %d", r.Effects, r.Duplicates)
}
