package filestore

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/stet-dev/stet"
)

// sifted is the size of a file, in bytes, from which it is read piece by piece.
const sifted = 128 << 10

// piece is how much of a file is looked at at a time. It is a multiple of 4, so that a piece of
// base64 can be decoded by itself.
const piece = 64 << 10

// sift is decode for a file in which a body may be large: no more of it is in memory than its text
// without that and, unless it is left, the body itself, once. A string that is longer than a piece,
// and is a body, is decoded as it comes.
func sift(f io.Reader, size, most int64) (stet.Record, error) {
	sum := crc32.New(castagnoli)
	held := size - int64(sealLen)
	s := sieve{most: most, rest: held, src: bufio.NewReaderSize(io.TeeReader(io.LimitReader(f, held), sum), piece)}
	if begin, err := s.src.Peek(len(opening)); err != nil {
		return stet.Record{}, err
	} else if !bytes.Equal(begin, opening) {
		return stet.Record{}, fmt.Errorf("not a file of schema %d", schema)
	}
	form := s.read()
	if form != nil && !errors.Is(form, errForm) {
		return stet.Record{}, form
	}
	if _, err := io.Copy(io.Discard, s.src); err != nil {
		return stet.Record{}, err
	}
	seal := make([]byte, sealLen)
	if _, err := io.ReadFull(f, seal); err != nil {
		return stet.Record{}, err
	}
	switch {
	case string(seal) != fmt.Sprintf(sealFormat, sum.Sum32()):
		return stet.Record{}, errChanged
	case form != nil:
		return stet.Record{}, form
	}
	r, err := parse(s.text)
	if err == nil {
		s.fill(&r.Body)
	}
	return r, err
}

// sieve takes large bodies out of a text.
type sieve struct {
	src  *bufio.Reader
	most int64
	rest int64 // bytes of the file that are still to come, at least

	text   []byte // with an empty string in place of each large body
	bodies [len(largeNames)][]byte
	took   int64 // how many bytes they have, also if they are left
}

// largeNames are the names of what may be large, up to where it begins.
var largeNames = [...]string{`"body_b64": "`, `"request_b64": "`, `"progress_b64": "`}

var errForm = errors.New("not well formed")

// read reads to the end. Texts between two quotation marks are what large strings are made of: in
// base64 there is none.
func (s *sieve) read() error {
	for {
		next, err := s.src.ReadSlice('"')
		if err == bufio.ErrBufferFull {
			if i := s.large(); i >= 0 {
				if err := s.decode(i, next); err != nil {
					return err
				}
				continue
			}
		}
		s.text, s.rest = append(s.text, next...), s.rest-int64(len(next))
		switch err {
		case nil, bufio.ErrBufferFull:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// large returns which body the text goes on with, or -1.
func (s *sieve) large() int {
	for i, name := range largeNames {
		if bytes.HasSuffix(s.text, []byte(name)) {
			return i
		}
	}
	return -1
}

// decode decodes a body to its end. One that would be too much is only counted.
func (s *sieve) decode(i int, next []byte) error {
	room := min(s.most-s.took, int64(base64.StdEncoding.DecodedLen(int(s.rest))))
	s.bodies[i] = make([]byte, 0, max(0, room)+4) // so that it need not grow
	for {
		s.rest -= int64(len(next))
		text, ended := bytes.CutSuffix(next, []byte{'"'})
		s.took += int64(base64.StdEncoding.DecodedLen(len(text)))
		if s.took > s.most {
			s.bodies = [len(largeNames)][]byte{}
		} else {
			var err error
			if s.bodies[i], err = base64.StdEncoding.AppendDecode(s.bodies[i], text); err != nil {
				return errForm
			}
		}
		if ended {
			s.text = append(s.text, '"')
			return nil
		}
		var err error
		if next, err = s.src.ReadSlice('"'); err != nil && err != bufio.ErrBufferFull {
			if err == io.EOF {
				err = errForm
			}
			return err
		}
	}
}

// fill puts the bodies where they belong.
func (s *sieve) fill(b *stet.Body) {
	if s.took > s.most {
		*b = stet.Body{Left: s.took + int64(len(s.text))}
		return
	}
	for i, to := range [...]*[]byte{nil, &b.Request, &b.Progress} {
		if b.Response != nil && i == 0 {
			to = &b.Response.Body
		}
		if to != nil && s.bodies[i] != nil {
			*to = s.bodies[i]
		}
	}
}
