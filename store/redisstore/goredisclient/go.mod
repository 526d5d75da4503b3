module github.com/stet-dev/stet/store/redisstore/goredisclient

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/stet-dev/stet v0.1.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
