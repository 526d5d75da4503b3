package compare_test

import (
	"fmt"
	"iter"

	"github.com/stet-dev/stet/reconcile/compare"
)

// ordered stands for a query of one's own payments, or for the pages of the provider's list.
func ordered(all ...compare.Entry) iter.Seq2[compare.Entry, error] {
	return func(yield func(compare.Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Once a day: what the provider did, and what is booked.
func ExampleBooks() {
	booked := ordered(compare.Entry{ID: "ch_1", Amount: 1099, Currency: "EUR"}, compare.Entry{ID: "ch_2", Amount: 500, Currency: "EUR"})
	charged := ordered(compare.Entry{ID: "ch_1", Amount: 1099, Currency: "EUR"}, compare.Entry{ID: "ch_2", Amount: 50, Currency: "EUR"},
		compare.Entry{ID: "ch_3", Amount: 700, Currency: "EUR"})
	for d, err := range compare.Books(booked, charged) {
		switch {
		case err != nil:
			fmt.Println("not all was compared:", err)
		case d.Kind == compare.Differs:
			fmt.Println(d.Kind, d.Ledger.ID, d.Ledger.Amount, d.Provider.Amount)
		case d.Kind == compare.ProviderOnly:
			fmt.Println(d.Kind, d.Provider.ID)
		}
	}
	// Output:
	// differs ch_2 500 50
	// provider only ch_3
}
