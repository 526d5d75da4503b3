package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is how large a configuration file may be, in bytes.
const maxFile = 1 << 20

// Options say where a configuration comes from.
type Options struct {
	File      string // path of the YAML file; "" for none
	Overrides []Override
}

// Override sets one value from outside the file. Later ones beat earlier ones.
type Override struct {
	Path   string // a scalar setting, such as store.dsn
	Value  string
	Origin Origin
}

// Config is an effective configuration: every value is set, and every policy is complete.
type Config struct {
	File
	name  string // of the file; "" for none
	given origins
	// For each route and, under -1, for the file: which profile its policy starts from.
	profiles map[int]string
	stamps   stamps // of files that settings name; nil before Stamp
}

// Load reads, layers and checks a configuration. The error is of type [Errors] and holds all that
// is wrong.
func Load(o Options) (*Config, error) {
	d := &decoder{file: o.File, given: origins{}, budget: maxNodes}
	c := &Config{name: o.File, given: d.given, profiles: map[int]string{}}
	setDefaults(reflect.ValueOf(&c.File).Elem())
	root, err := d.read()
	if err != nil {
		return nil, err
	}
	if root != nil {
		d.value(root, field{Value: reflect.ValueOf(&c.File).Elem()}, "")
	}
	for _, over := range o.Overrides {
		d.override(c, over)
	}
	settings(reflect.ValueOf(&c.File).Elem(), "", d.instead)
	if err := d.errs.Err(); err != nil { // the checks would only stumble over the same values
		return nil, err
	}
	c.layer(root)
	if err := c.check().Err(); err != nil {
		return nil, err
	}
	return c, nil
}

func (d *decoder) override(c *Config, over Override) {
	f, ok := at(reflect.ValueOf(&c.File).Elem(), over.Path)
	if !ok {
		panic("config: there is no setting " + over.Path)
	}
	d.given[over.Path] = over.Origin
	if err := f.set(over.Value); err != nil {
		d.errs.add(over.Origin, over.Path, "%s", err)
	}
}

// instead reads a value from the file that another setting names in its place. Where both are
// given, the one that beats the other is the later of flag, environment and file.
func (d *decoder) instead(f field, path string, in reflect.Value) {
	key := f.tag.Get("or")
	other, ok := member(in, key)
	if !ok || other.String() == "" {
		return
	}
	from := join(path[:max(0, strings.LastIndex(path, "."))], key)
	switch value, name := d.given.of(path), d.given.of(from); {
	case !d.given.given(path) || value.Kind < name.Kind:
		text, err := ReadSecret(other.String())
		if err == nil {
			err = f.set(string(text))
		}
		if err != nil {
			d.errs.add(name, from, "%s", err)
		}
		d.given[path] = name
	case value.Kind > name.Kind:
		other.SetString("")
	default:
		d.errs.add(name, from, "give %s or %s, not both", f.tag.Get("yaml"), key)
	}
}

// layer completes every policy: its profile, then the file's keys, then the route's. Decoding the
// same nodes once more, each over the layer below, is what makes "explicit beats profile" true for
// every key there is or will be.
func (c *Config) layer(root *yaml.Node) {
	again := &decoder{given: origins{}, budget: math.MaxInt} // the nodes are known to be good, and not too many
	file, routes := child(root, "policy"), child(root, "routes")
	bases := map[string]Policy{}
	base := func(profile string) Policy {
		p, ok := bases[profile]
		if !ok {
			p = profilePolicy(profile)
			again.over(&p, file)
			p.Profile = profile
			bases[profile] = p
		}
		return p
	}
	c.profiles[-1] = c.Policy.Profile
	c.Policy = base(c.Policy.Profile)
	for i := range c.Routes {
		profile := c.Policy.Profile
		if c.given.given(fmt.Sprintf("routes[%d].policy.profile", i)) {
			profile = c.Routes[i].Policy.Profile
		}
		p := base(profile)
		again.over(&p, child(routes.Content[i], "policy"))
		c.profiles[i], c.Routes[i].Policy = profile, p
	}
}

func (d *decoder) over(p *Policy, n *yaml.Node) {
	if n != nil {
		d.value(n, field{Value: reflect.ValueOf(p).Elem()}, "")
	}
}

// child returns the value of a mapping's key, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n = resolve(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for pair := range slices.Chunk(n.Content, 2) {
		if pair[0].Value == key {
			return resolve(pair[1])
		}
	}
	return nil
}

// read parses the file into its one document. An empty file is nil.
func (d *decoder) read() (*yaml.Node, error) {
	if d.file == "" {
		return nil, nil
	}
	text, err := readFileOf(d.file, maxFile, 0) // it holds no secret
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no file %s; stet config init > %[1]s makes one", d.file)
	}
	if err != nil {
		return nil, Errors{{Text: "cannot read the configuration: " + err.Error()}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, Errors{d.syntax(err)}
	}
	switch err := dec.Decode(&next); { // a decoder would leave a second document unread, and its settings unheard
	case err == nil:
		d.fail(&next, "", "a second document begins here; a configuration is one")
	case !errors.Is(err, io.EOF):
		d.errs = append(d.errs, d.syntax(err))
	}
	return doc.Content[0], d.errs.Err()
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntax turns a parser's complaint into ours.
func (d *decoder) syntax(err error) *Error {
	at, text := Origin{Kind: FromFile, Name: d.file, Line: 1, Col: 1}, err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			at.Line = n
		}
	}
	return &Error{Where: at.where(), Text: "not YAML: " + text, line: at.Line, col: at.Col}
}
