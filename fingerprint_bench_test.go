package stet

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// payment is a body as payment APIs get them: names of some length, identifiers, amounts, a few
// nested objects, white space after separators, one text beyond ASCII.
const payment = `{
  "amount": 129950, "currency": "EUR", "reference": "INV-2024-%06d", "capture": true,
  "description": "Bestellung %d – Zürich → Genève", "statement_descriptor": null,
  "customer": {"id": "cus_9s6XKzkNRiz8i3", "email": "jane.doe@example.com", "name": "Jane Q. Doe",
    "address": {"line1": "12 Rue de la Paix", "line2": "", "postal_code": "75002", "city": "Paris", "country": "FR"}},
  "items": [
    {"sku": "SKU-1001-A", "name": "Coffee \"Sumatra\" 1kg", "quantity": 2, "unit_price": 18.90, "tax_rate": 0.055},
    {"sku": "SKU-2044-C", "name": "Filter paper, 100 pcs", "quantity": 1, "unit_price": 4.50, "tax_rate": 0.2}],
  "metadata": {"order_id": "6735", "session": "b7b6a3b0-93d3-4a86-9c1e-0a3f5c1c0a55", "channel": "web", "attempt": 1}
}`

// paymentJSON returns exactly n bytes: a short payment, or as many full ones as fit.
func paymentJSON(n int) []byte {
	var b bytes.Buffer
	if n < len(payment)+40 {
		b.WriteString(`{"amount": 129950, "currency": "EUR", "reference": "INV-2024-17", "capture": true, "customer": "cus_9s6XKzkNRiz8i3", `)
	} else {
		b.WriteString(`{"payments": [`)
		fmt.Fprintf(&b, payment, 0, 0)
		for i := 1; b.Len() < n-len(payment)-40; i++ {
			b.WriteString(",\n")
			fmt.Fprintf(&b, payment, i, i)
		}
		b.WriteString("], ")
	}
	for i := 0; b.Len() < n-60; i++ {
		fmt.Fprintf(&b, `"label_%03d": "value %d", `, i, i)
	}
	const last = `"note": "%s"}`
	fmt.Fprintf(&b, last, strings.Repeat("x", max(0, n-b.Len()-len(last)+2)))
	return b.Bytes()
}

func paymentForm(n int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < n*9/10; i++ {
		if i > 0 {
			b.WriteByte('&')
		}
		fmt.Fprintf(&b, "items[%d][sku]=SKU-%d&items[%d][name]=%s&items[%d][price]=18.90", i, i, i, url.QueryEscape("Coffee, 1 kg"), i)
	}
	return []byte(b.String())
}

// What canonical forms cost is the difference to raw; what raw costs is measured against sha256,
// the hash of the body alone.
func BenchmarkFingerprint(b *testing.B) {
	sizes := []struct {
		name string
		n    int
	}{{"200B", 200}, {"1KiB", 1 << 10}, {"64KiB", 64 << 10}}
	for _, size := range sizes {
		b.Run("sha256/"+size.name, func(b *testing.B) {
			body := paymentJSON(size.n)
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				sha256.Sum256(body)
			}
		})
	}
	for _, mode := range []struct {
		name   string
		recipe Recipe
		media  string
		body   func(int) []byte
	}{
		{"raw", Recipe{Body: BodyRaw}, "application/json", paymentJSON},
		{"json", Recipe{}, "application/json", paymentJSON},
		{"jcs", Recipe{Body: BodyJCS}, "application/json", paymentJSON},
		{"fields", Recipe{Body: BodyFields, Fields: []string{"/payments/0/amount", "/amount", "/currency"}}, "application/json", paymentJSON},
		{"form", Recipe{}, "application/x-www-form-urlencoded", paymentForm},
	} {
		for _, size := range sizes {
			b.Run(mode.name+"/"+size.name, func(b *testing.B) {
				f, err := mode.recipe.Compile()
				if err != nil {
					b.Fatal(err)
				}
				s := Subject{Method: "POST", Path: "/v1/payments", Body: mode.body(size.n), Header: map[string][]string{"Content-Type": {mode.media}}}
				b.SetBytes(int64(len(s.Body)))
				b.ReportAllocs()
				for b.Loop() {
					f.Fingerprint(&s)
				}
			})
		}
	}
}
