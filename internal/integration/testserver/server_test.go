package testserver

import (
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestServersServe(t *testing.T) {
	for name, get := range map[string]func(testing.TB) *Server{"postgres": Postgres, "mariadb": MariaDB, "redis": Redis} {
		t.Run(name, func(t *testing.T) {
			s := get(t)
			if get(t) != s {
				t.Error("it is not shared")
			}
			if err := s.await(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOwnServersStopFreezeAndComeBack(t *testing.T) {
	for name, make := range map[string]func(testing.TB) *Server{
		"postgres": func(t testing.TB) *Server { return NewPostgres(t) },
		"mariadb":  func(t testing.TB) *Server { return NewMariaDB(t) },
		"redis":    func(t testing.TB) *Server { return NewRedis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := make(t)
			dir := s.Dir()
			t.Cleanup(func() {
				if _, err := os.Stat(dir); err != nil {
					t.Error("its directory went before the test's end")
				}
			})
			s.Pause(t)
			if s.kind.ready(s.Addr) == nil {
				t.Error("it answers while it is frozen")
			}
			s.Resume(t)
			if err := s.await(); err != nil {
				t.Error(err)
			}
			s.Kill(t)
			if s.kind.ready(s.Addr) == nil {
				t.Error("it answers after it was killed")
			}
			s.Start(t)
			s.Stop(t)
			s.Start(t)
		})
	}
}

func TestClusterReplacesAMaster(t *testing.T) {
	c := NewRedisCluster(t)
	c.Nodes[0].Kill(t)
	until(t, "the replica is master", func() bool {
		info, err := command(c.Nodes[masters], "INFO replication")
		return err == nil && strings.Contains(info, "role:master")
	})
}
