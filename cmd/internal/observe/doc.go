// Package observe turns the engine's events into a log for people and metrics for Prometheus.
// Neither ever holds a key, a body or a fingerprint: records are named by their tag.
package observe
