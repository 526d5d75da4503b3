// Package config is the gateway's configuration: what may be set, its defaults, and where each
// value came from.
//
// [File] is the one description of it all. Its tags say a setting's name, default, range and
// purpose; the decoder, `stet config init`, `show` and `schema` are walks over the same tree, so
// that none of them can know a setting the others do not.
//
// Values come from a flag, the environment, the file or the default, in this order. Policies have
// one layer more: a route's keys beat the file's, and what the file says beats what its profile
// means.
package config
