module github.com/stet-dev/stet/store/redisstore/rueidisclient

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79
	github.com/stet-dev/stet v0.1.0
)

require (
	github.com/dunglas/httpsfv v1.1.2 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
