module github.com/stet-dev/stet/internal/peerbench

go 1.26.0

replace (
	github.com/stet-dev/stet => ../..
	github.com/stet-dev/stet/internal/integration => ../integration
	github.com/stet-dev/stet/outbox/riveroutbox => ../../outbox/riveroutbox
	github.com/stet-dev/stet/store/pgxstore => ../../store/pgxstore
	github.com/stet-dev/stet/store/redisstore/goredisclient => ../../store/redisstore/goredisclient
	github.com/stet-dev/stet/store/redisstore/rueidisclient => ../../store/redisstore/rueidisclient
)

require (
	github.com/stet-dev/stet v0.1.0
	github.com/stet-dev/stet/internal/integration v0.0.0
	github.com/stet-dev/stet/store/redisstore/rueidisclient v0.1.0
)

require (
	github.com/gofiber/fiber/v3 v3.1.0
	github.com/gofiber/storage/redis/v3 v3.4.3
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/andybalholm/brotli v1.2.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/gofiber/schema v1.7.0 // indirect
	github.com/gofiber/utils/v2 v2.0.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.6.3 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasthttp v1.69.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
