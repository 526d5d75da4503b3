module github.com/stet-dev/stet

go 1.26.0

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/klauspost/compress v1.20.3
	github.com/maypok86/otter/v2 v2.4.0
	github.com/sony/gobreaker/v2 v2.4.0
)
