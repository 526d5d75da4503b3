// Package quiet takes the content out of what net/http and its relatives log: they quote the bytes
// of requests and answers, and print what a handler panicked with.
package quiet

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"
)

// Logger returns a logger of package log for [net/http.Server.ErrorLog] and its like. Each message
// is a warning in l without its content, see [Text].
func Logger(l *slog.Logger) *log.Logger { return log.New(Writer(l), "", 0) }

// Writer is [Logger] for [log.SetOutput]: the Transport of net/http writes to the standard logger,
// and can be given no other.
func Writer(l *slog.Logger) io.Writer { return writer{l} }

type writer struct{ log *slog.Logger }

func (w writer) Write(p []byte) (int, error) {
	w.log.LogAttrs(context.Background(), slog.LevelWarn, Text(string(p)))
	return len(p), nil
}

// Text is what of a message is surely no content: its first line, up to the first quotation mark.
// Of a handler's panic it keeps where, and the stack, which holds no values, but not with what.
func Text(message string) string {
	const panicked, stack = "panic serving ", "\ngoroutine "
	trace := ""
	if i := strings.Index(message, panicked); i >= 0 {
		if at := strings.LastIndex(message, stack); at >= 0 { // what it panicked with may have lines, too
			message, trace = message[:at], message[at:]
		}
		head := message[:i+len(panicked)]
		address, _, _ := strings.Cut(message[len(head):], ": ")
		message = head + address
	}
	message, _, _ = strings.Cut(message, "\n")
	message, _, _ = strings.Cut(message, `"`)
	message = strings.TrimRight(message, " :") + strings.TrimRight(trace, "\n")
	return message[:min(len(message), longest)]
}

// longest is how much of a message is logged, in bytes; what is longer is a stack.
const longest = 8 << 10
