//go:build !stetfault

package dsn

const faultsBuilt = false
