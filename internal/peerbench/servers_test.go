package peerbench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	fiberredis "github.com/gofiber/storage/redis/v3"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/redisstore"
	"github.com/stet-dev/stet/store/redisstore/rueidisclient"
	"github.com/stet-dev/stet/store/tierstore"
)

// A server under test is this very program, started again: which, and where its Redis is, the
// environment says.
const (
	roleVariable  = "PEERBENCH_ROLE"
	redisVariable = "PEERBENCH_REDIS"
)

var answer = bytes.Repeat([]byte("0123456789"), 20)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println(l.Addr())
		err = servers[role](l, os.Getenv(redisVariable))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// servers by role.
var servers = map[string]func(net.Listener, string) error{
	"bare": func(l net.Listener, _ string) error { return http.Serve(l, charge) },
	"source": func(l net.Listener, addr string) error {
		return http.Serve(l, &source{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64}), charge})
	},
	"stet":     func(l net.Listener, addr string) error { return serveStet(l, addr, true) },
	"uncached": func(l net.Listener, addr string) error { return serveStet(l, addr, false) },
	"fiber":    serveFiber,
}

var charge = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer)
})

// serveStet guards with the cache that the gateway has before Redis by default, or without one.
func serveStet(l net.Listener, addr string, cached bool) error {
	c, err := rueidis.NewClient(rueidisclient.Options(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}))
	if err != nil {
		return err
	}
	redis, err := redisstore.Open(context.Background(), rueidisclient.New(c), redisstore.Config{AllowVolatile: true})
	if err != nil {
		return err
	}
	s := stet.Store(redis)
	if cached {
		front, err := tierstore.New(tierstore.NewMemory(0), redis, tierstore.Config{TTL: 5 * time.Second})
		if err != nil {
			return err
		}
		go func() { _ = front.Follow(context.Background()) }()
		s = front
	}
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		return err
	}
	return http.Serve(l, stethttp.Middleware(e, stethttp.HeaderScope("X-Tenant-Id"), stethttp.Config{})(charge))
}

func serveFiber(l net.Listener, addr string) error {
	app := fiber.New()
	app.Use(idempotency.New(idempotency.Config{
		KeyHeader:         "Idempotency-Key",
		KeyHeaderValidate: func(string) error { return nil },
		Storage:           fiberredis.New(fiberredis.Config{Addrs: []string{addr}, PoolSize: 64}),
	}))
	app.Post("/v1/charges", func(c fiber.Ctx) error {
		c.Set("Content-Type", "application/json")
		return c.Status(http.StatusCreated).Send(answer)
	})
	return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
}
