package corpus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// script is a case, ready to be run on one face.
type script struct {
	name  string // FILE/ID/NAME, with the row of its table
	with  map[string]string
	conns []*dialogue
	runs  int
	saw   []sight
	keeps []string // the records that are stored, as lines
	kept  bool     // the last connection
}

// dialogue is what happens on one connection.
type dialogue struct {
	http2, tls bool
	turns      []turn
	shut       bool
}

// turn is something sent, and the answers to it.
type turn struct {
	send    []string // HTTP/1: pieces of one write; HTTP/2: fields, and what follows them
	answers []answer
}

type answer struct {
	status string
	code   string
	replay bool
	head   bool
	broken bool
	rules  []string // "Name: value", "no Name", "has Name", the same after "trailer", "body TEXT"
}

// sight is what reached the handler.
type sight struct {
	request string // METHOD TARGET
	rules   []string
}

// load reads all cases for a face.
func load(t *testing.T, face string) (all []script) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		theme := strings.TrimSuffix(filepath.Base(file), ".txt")
		for block := range strings.SplitSeq("\n"+string(text), "\n== ") {
			head, body, _ := strings.Cut(block, "\n")
			if block == "" || strings.HasPrefix(head, "#") || head == "" {
				continue
			}
			for _, row := range rows(body) {
				s, err := parse(face, theme+"/"+strings.ReplaceAll(head, " ", "/")+row.suffix, row.lines)
				if err != nil {
					t.Fatalf("%s: %s: %v", file, head, err)
				}
				if names[s.name] {
					t.Fatalf("%s: two cases are called %s", file, s.name)
				}
				names[s.name] = true
				all = append(all, s)
			}
		}
	}
	return all
}

type row struct {
	suffix string
	lines  []string
}

// rows makes a case of each row of its table.
func rows(body string) (all []row) {
	var columns, lines []string
	var table [][]string
	for line := range strings.SplitSeq(body, "\n") {
		switch {
		case strings.HasPrefix(line, "each "):
			columns = strings.Fields(line)[1:]
		case strings.HasPrefix(line, "| "):
			table = append(table, strings.Fields(line)[1:])
		case line != "" && !strings.HasPrefix(line, "#"):
			lines = append(lines, line)
		}
	}
	if columns == nil {
		return []row{{"", lines}}
	}
	for _, cells := range table {
		var pairs []string
		for i, c := range columns {
			pairs = append(pairs, c, cells[i])
		}
		r := row{suffix: "/" + strings.ReplaceAll(cells[0], "/", ":")}
		for _, line := range lines {
			r.lines = append(r.lines, strings.NewReplacer(pairs...).Replace(line))
		}
		all = append(all, r)
	}
	return all
}

// parse reads the lines of a case that are for a face.
func parse(face, name string, lines []string) (s script, err error) {
	s = script{name: name, with: map[string]string{}, runs: -1, conns: []*dialogue{{}}}
	ended, listed := false, false
	for _, line := range lines {
		if of, rest, found := strings.Cut(line, ": "); found && (of == "gateway" || of == "middleware") {
			does, why, reasoned := strings.Cut(rest, " -- ")
			if !reasoned || why == "" {
				return s, fmt.Errorf("%q does not say why the faces differ", line)
			}
			if of != face {
				continue
			}
			line = does
		}
		if strings.HasSuffix(line, " ") {
			return s, fmt.Errorf("%q ends with a space that nobody sees: write \\s", line)
		}
		word, rest, _ := strings.Cut(line, " ")
		conn := s.conns[len(s.conns)-1]
		switch word {
		case "with":
			k, v, _ := strings.Cut(rest, " ")
			s.with[k] = v
		case "h2":
			conn.http2, conn.tls = true, rest == "tls"
		case "connect":
			s.conns = append(s.conns, &dialogue{http2: conn.http2 && rest != "http/1", tls: conn.tls})
		case "again":
			more := &dialogue{http2: conn.http2, tls: conn.tls, shut: conn.shut}
			for _, t := range conn.turns {
				more.turns = append(more.turns, turn{send: t.send})
			}
			s.conns = append(s.conns, more)
		case "shut":
			conn.shut = true
		case ">":
			conn.say(unescape(rest))
		case "<":
			conn.hear(rest)
		case "kept", "closed":
			s.kept, ended = word == "kept", true
		case "runs":
			s.runs, err = strconv.Atoi(rest)
		case "saw":
			s.see(rest)
		case "stored":
			if listed = true; rest != "nothing" {
				s.keeps = append(s.keeps, unescape(rest))
			}
		default:
			return s, fmt.Errorf("%q is nothing that a case can say", line)
		}
		if err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
	}
	if s.runs < 0 || !listed || !ended && !s.conns[len(s.conns)-1].http2 {
		return s, fmt.Errorf("it does not say how often it runs, what is stored, or whether the connection is kept")
	}
	if len(s.saw) != 0 && len(s.saw) != s.runs {
		return s, fmt.Errorf("%d runs, and %d of them were seen", s.runs, len(s.saw))
	}
	return s, nil
}

func (d *dialogue) say(what string) {
	last := len(d.turns) - 1
	if last < 0 || len(d.turns[last].answers) > 0 {
		d.turns = append(d.turns, turn{})
		last++
	}
	d.turns[last].send = append(d.turns[last].send, what)
}

// hear adds an answer to the first turn that has none where the connection repeats another one,
// else to the last.
func (d *dialogue) hear(what string) {
	t := &d.turns[len(d.turns)-1]
	fields := strings.Fields(what)
	if _, err := strconv.Atoi(fields[0]); err != nil && fields[0] != "reset" {
		a := &t.answers[len(t.answers)-1]
		a.rules = append(a.rules, unescape(what))
		return
	}
	a := answer{status: fields[0]}
	for _, f := range fields[1:] {
		switch f {
		case "replay":
			a.replay = true
		case "head":
			a.head = true
		case "broken":
			a.broken = true
		default:
			a.code = f
		}
	}
	for i := range d.turns {
		if len(d.turns[i].answers) == 0 && i < len(d.turns)-1 {
			t = &d.turns[i]
			break
		}
	}
	t.answers = append(t.answers, a)
}

func (s *script) see(what string) {
	what = unescape(what)
	method, _, _ := strings.Cut(what, " ")
	if strings.HasSuffix(method, ":") || slices.Contains([]string{"no", "has", "body", "trailer", "length"}, method) {
		last := &s.saw[len(s.saw)-1]
		last.rules = append(last.rules, what)
		return
	}
	s.saw = append(s.saw, sight{request: what})
}

// unescape reads the escapes of a line.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'r':
			b.WriteByte('\r')
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 's':
			b.WriteByte(' ')
		case '\\':
			b.WriteByte('\\')
		case 'x':
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				panic("corpus: " + s + ": " + err.Error())
			}
			b.WriteByte(byte(n))
			i += 2
		case '{':
			what, rest, _ := strings.Cut(s[i+1:], "}")
			piece, times, _ := strings.Cut(what, "*")
			n, err := strconv.Atoi(times)
			if err != nil {
				panic("corpus: " + s + ": " + err.Error())
			}
			b.WriteString(strings.Repeat(piece, n))
			i = len(s) - len(rest) - 1
		default:
			panic("corpus: " + s + ": no such escape")
		}
	}
	return b.String()
}

// show is the other way round, for people who look at a failure.
func show(s string) string {
	const long = 400
	q := strconv.Quote(s)
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	if len(q) > long {
		q = q[:long] + fmt.Sprintf("… (%d bytes)", len(s))
	}
	return q
}
