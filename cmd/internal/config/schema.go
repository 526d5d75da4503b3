package config

import (
	"encoding/json"
	"reflect"
)

// Schema is the JSON Schema (draft-07, which editors' YAML support reads) of the configuration
// file.
func Schema() map[string]any {
	s := object(reflect.TypeFor[File]())
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "Stet gateway configuration"
	s["definitions"] = map[string]any{"policy": orNothing(object(reflect.TypeFor[Policy]()))}
	return s
}

func object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for f := range t.Fields() {
		properties[f.Tag.Get("yaml")] = property(f)
		if f.Tag.Get("nonempty") == "required" {
			required = append(required, f.Tag.Get("yaml"))
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// orNothing allows a section or a list without anything below it, which the file may have.
func orNothing(s map[string]any) map[string]any {
	if t, ok := s["type"].(string); ok && (t == "object" || t == "array") {
		s["type"] = []string{t, "null"}
	}
	return s
}

func property(f reflect.StructField) map[string]any {
	var s map[string]any
	switch t := f.Type; kindOf(t) {
	case section:
		if s = object(t); t == reflect.TypeFor[Policy]() {
			s = map[string]any{"$ref": "#/definitions/policy"}
		}
	case optional:
		s = object(t.Elem())
	case routes:
		s = map[string]any{"type": "array", "items": object(t.Elem())}
	case setting:
		switch t.Kind() {
		case reflect.Slice:
			s = map[string]any{"type": "array", "items": scalarSchema(t.Elem(), f.Tag)}
		case reflect.Map:
			s = map[string]any{"type": "object", "propertyNames": map[string]any{"pattern": "^[0-9]+$"}, "additionalProperties": scalarSchema(t.Elem(), f.Tag)}
		default:
			s = scalarSchema(t, f.Tag)
		}
	}
	orNothing(s)
	if remark := (field{tag: f.Tag}).remark(); remark != "" {
		s["description"] = remark
	}
	if def := (field{reflect.New(f.Type).Elem(), f.Tag}); def.setDefault() {
		s["default"] = def.Interface()
	}
	if u := unit(f.Type, f.Tag); u != "" {
		s["x-unit"] = u
	}
	if reload := f.Tag.Get("reload"); reload != "" {
		s["x-reload"] = reload
	}
	return s
}

// unit is what a number counts; "" if it is no number.
func unit(t reflect.Type, tag reflect.StructTag) string {
	if t == reflect.TypeFor[Seconds]() {
		return "s"
	}
	return tag.Get("unit")
}

func scalarSchema(t reflect.Type, tag reflect.StructTag) map[string]any {
	s := map[string]any{}
	switch t.Kind() {
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.String:
		s["type"] = "string"
		if words := (field{tag: tag}).enum(); words != nil {
			s["enum"] = words
		} else if _, ok := tag.Lookup("nonempty"); ok {
			s["minLength"] = 1
		}
	case reflect.Int, reflect.Int64, reflect.Float64:
		s["type"] = "integer"
		if t == reflect.TypeFor[Seconds]() || t.Kind() == reflect.Float64 {
			s["type"] = "number"
		}
		for bound, word := range map[string]string{"min": "minimum", "max": "maximum"} {
			if n, ok := tag.Lookup(bound); ok {
				s[word] = json.Number(n)
			}
		}
	default:
		panic("config: a setting of type " + t.String())
	}
	return s
}
