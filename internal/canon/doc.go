// Package canon brings what a request carries into one form, so that two spellings of the same
// thing are the same bytes.
//
// There are four forms. [Doc] reads JSON and writes it either exactly ([Doc.WriteExact]: numbers
// are decimals of any size, nothing is rounded) or as RFC 8785 text ([Doc.WriteJCS]: numbers are
// doubles). [Form] reads pairs: a query or an urlencoded body. [Multipart] reads a body by its
// parts. Each of them refuses what it cannot read with certainty, and says so before it has written
// anything; the caller then takes the bytes as they are.
//
// Every form is written so that it can be read back in one way only: texts and lists carry their
// lengths, values carry tags. Two different contents therefore never become the same bytes,
// whatever delimiters they contain.
//
// Nothing here keeps a reference to its input after it has been written, and nothing is safe for
// concurrent use: values are scratch space, made to be used again.
package canon
