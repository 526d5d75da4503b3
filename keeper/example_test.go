package keeper_test

import (
	"fmt"
	"iter"

	"github.com/stet-dev/stet/keeper"
)

// ordered stands for a query of one's own payments, or for the pages of the provider's list.
func ordered(all ...keeper.Entry) iter.Seq2[keeper.Entry, error] {
	return func(yield func(keeper.Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Once a day: what the provider did, and what is booked.
func ExampleCompare() {
	booked := ordered(keeper.Entry{ID: "ch_1", Amount: 1099, Currency: "EUR"}, keeper.Entry{ID: "ch_2", Amount: 500, Currency: "EUR"})
	charged := ordered(keeper.Entry{ID: "ch_1", Amount: 1099, Currency: "EUR"}, keeper.Entry{ID: "ch_2", Amount: 50, Currency: "EUR"},
		keeper.Entry{ID: "ch_3", Amount: 700, Currency: "EUR"})
	for d, err := range keeper.Compare(booked, charged) {
		switch {
		case err != nil:
			fmt.Println("not all was compared:", err)
		case d.Kind == keeper.Differs:
			fmt.Println(d.Kind, d.Ledger.ID, d.Ledger.Amount, d.Provider.Amount)
		case d.Kind == keeper.ProviderOnly:
			fmt.Println(d.Kind, d.Provider.ID)
		}
	}
	// Output:
	// differs ch_2 500 50
	// provider only ch_3
}
