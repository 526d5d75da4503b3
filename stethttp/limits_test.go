package stethttp

import (
	"strconv"
	"testing"

	"github.com/stet-dev/stet"
)

// TestBucketsAreBounded: scopes that a client can invent do not fill the memory, nor is every new one a search through all.
func TestBucketsAreBounded(t *testing.T) { // T5, T16
	l := NewLimits(LimitsConfig{NewKeysPerSecond: 0.001, LookupsPerSecond: 0.001})
	for i := range maxBuckets + 300 {
		s := stet.Scope(strconv.Itoa(i))
		l.created(s)
		if !l.lookup(s) || l.lookup(s) {
			t.Fatalf("scope %d does not have one look-up", i)
		}
	}
	if len(l.newKeys) != maxBuckets || len(l.lookups) != maxBuckets {
		t.Errorf("%d and %d buckets, the bound is %d", len(l.newKeys), len(l.lookups), maxBuckets)
	}
}

// TestFullBucketsGoFirst: one that was used is kept.
func TestFullBucketsGoFirst(t *testing.T) {
	l := NewLimits(LimitsConfig{NewKeysPerSecond: 0.001})
	l.created("busy")
	for i := range maxBuckets + 1000 {
		l.mayCreate(stet.Scope(strconv.Itoa(i)))
	}
	if l.mayCreate("busy") {
		t.Error("the bucket of a scope that had used it up was dropped for full ones")
	}
}
