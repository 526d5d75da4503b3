// Package stalling has a request body for tests that stops arriving.
package stalling

import (
	"errors"
	"io"
)

// Reader reads what it has, closes Reached, waits until On is closed, and then breaks off.
type Reader struct {
	io.Reader
	Reached, On chan struct{}
}

// Read implements [io.Reader].
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		close(r.Reached)
		<-r.On
		return 0, errors.New("cut off")
	}
	return n, err
}
