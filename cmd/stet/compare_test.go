package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two ledgers are compared whatever their order, their columns and their form, and only what
// differs is a difference.
func TestCompare(t *testing.T) { // S1-28
	const ledger = "id,amount,currency\nch_2,500,eur\nch_1,1099,EUR\nch_4,1,USD\nch_5,7,EUR\nch_5,7,EUR\n"
	const provider = "ID;Note;Cents;Cur\nch_1;\"a;b\";1099;eur\nch_3;;20;EUR\nch_2;;501;EUR\nch_5;;7;EUR\n"
	const found = `KIND                 ID    LEDGER   PROVIDER
differs              ch_2  500 EUR  501 EUR
provider-only        ch_3  -        20 EUR
ledger-only          ch_4  1 USD    -
twice-in-the-ledger  ch_5  7 EUR    -
5 in the ledger, 4 at the provider: 4 differences
`
	const columns = "--provider-columns=id=ID,amount=Cents,currency=Cur"
	const lines = `{"id":"ch_2","amount":500,"currency":"eur","x":[1]}` + "\n" + `{"id":"ch_1","amount":"1099","currency":"EUR"}{"id":"ch_4","amount":1,"currency":"USD"}` +
		"\n" + `{"id":"ch_5","amount":7,"currency":"EUR"}` + "\n" + `{"id":"ch_5","amount":7,"currency":"EUR"}`
	same := "1 in the ledger, 1 at the provider: no difference\n"
	for name, c := range map[string]struct {
		ledger, provider, stdin string
		args                    []string
		status                  exit
		out, err                string
	}{
		"CSV":            {ledger: ledger, provider: provider, args: []string{columns}, status: exitFindings, out: found, err: "4 differences"},
		"JSON lines":     {ledger: lines, provider: "\xef\xbb\xbf" + provider, args: []string{columns}, status: exitFindings, out: found, err: "4 differences"},
		"stdin":          {ledger: "-", stdin: ledger, provider: provider, args: []string{columns}, status: exitFindings, out: found, err: "4 differences"},
		"equal":          {ledger: "id,amount,currency\na,1,EUR\n", provider: "currency,id,amount\neur,a,1\n", out: same},
		"ids":            {ledger: "id\na\n", provider: "id,amount,currency\na,1,EUR\n", args: []string{"--ids"}, out: same},
		"nothing booked": {ledger: "id,amount,currency\n", provider: "id,amount,currency\na,1,EUR\n", status: exitFindings, out: "provider-only  a   -       1 EUR\n", err: "1 difference"},
		"sorted":         {ledger: "id\na\nb\n", provider: "id\na\nb\n", args: []string{"--ids", "--sorted"}, out: "2 in the ledger, 2 at the provider: no difference\n"},
		"not sorted":     {ledger: "id\nb\na\n", provider: "id\na\nb\n", args: []string{"--ids", "--sorted"}, status: exitUsage, err: "sort the file"},
		"empty":          {ledger: "", provider: provider, status: exitUsage, err: "is empty: if there was nothing to book"},
		"no column":      {ledger: "ref,amount,currency\n", provider: provider, status: exitUsage, err: `has no column "id", but ref, amount, currency: name it by --ledger-columns id=NAME`},
		"no amount":      {ledger: "id\na\n", provider: provider, status: exitUsage, err: "or give --ids to compare ids alone"},
		"decimals":       {ledger: "id,amount,currency\na,10.99,EUR\n", provider: provider, args: []string{columns}, status: exitUsage, err: `line 2: amount "10.99" is no whole number`},
		"no id":          {ledger: lines + `{"amount":1}`, provider: provider, args: []string{columns}, status: exitUsage, err: "entry 6: it has no id"},
		"a short line":   {ledger: "id,amount,currency\na,1\n", provider: provider, args: []string{columns}, status: exitUsage, err: "line 2: wrong number of fields"},
		"half a line":    {ledger: lines[:len(lines)-3], provider: provider, args: []string{columns}, status: exitUsage, err: "ledger.csv: unexpected EOF"},
		"other columns":  {ledger: ledger, provider: provider, args: []string{"--provider-columns=key=ID"}, status: exitUsage, err: `"key=ID" is not id=NAME`},
		"no file":        {ledger: ledger, provider: "none", status: exitUsage, err: "no such file"},
		"twice stdin":    {ledger: "-", provider: "-", status: exitUsage, err: "only one of --ledger and --provider"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := func(name, text string) string {
				if text == "-" || text == "none" {
					return text
				}
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			var out, errs bytes.Buffer
			args := append([]string{"compare", "--ledger", file("ledger.csv", c.ledger), "--provider", file("provider.csv", c.provider)}, c.args...)
			status := run(t.Context(), args, strings.NewReader(c.stdin), &out, &errs)
			if status != c.status || !strings.Contains(out.String(), c.out) || c.status != exitFindings && out.String() != c.out || !strings.Contains(errs.String(), c.err) {
				t.Errorf("%d\n%s\n%s", status, &out, &errs)
			}
		})
	}
}
