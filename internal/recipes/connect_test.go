package recipes

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/docs/problems"
	"github.com/stet-dev/stet/stethttp"
)

// A client of Connect sends the key as a header of the request, and gets its message again.
func TestConnectClient(t *testing.T) {
	s := newService(t)
	c := connect.NewClient[emptypb.Empty, wrapperspb.StringValue](&client, connectApp(t, s, s.guard())+charge)
	for _, replayed := range []string{"", "true"} {
		req := connect.NewRequest(&emptypb.Empty{})
		req.Header().Set("X-Tenant", "acme")
		req.Header().Set("Idempotency-Key", "5f1c2ab0-7d10-4f5e")
		resp, err := c.CallUnary(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Msg.Value != "ch_1" || resp.Header().Get("Idempotent-Replayed") != replayed {
			t.Errorf("%q, replayed %q", resp.Msg.Value, resp.Header().Get("Idempotent-Replayed"))
		}
	}
}

// A call over gRPC-Web that succeeded is known to have: a server of connect-go compresses the frame
// with the status, too, for each client of connect-go.
func TestConnectOverGRPCWeb(t *testing.T) { // R03
	s := newService(t)
	c := connect.NewClient[emptypb.Empty, wrapperspb.StringValue](&client, connectApp(t, s, s.guard())+charge,
		connect.WithGRPCWeb(), connect.WithSendGzip())
	for _, replayed := range []string{"", "true"} {
		req := connect.NewRequest(&emptypb.Empty{})
		req.Header().Set("X-Tenant", "acme")
		req.Header().Set("Idempotency-Key", "5f1c2ab0-7d10-4f5e")
		resp, err := c.CallUnary(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Msg.Value != "ch_1" || resp.Header().Get("Idempotent-Replayed") != replayed {
			t.Errorf("%q, replayed %q", resp.Msg.Value, resp.Header().Get("Idempotent-Replayed"))
		}
		if resp.Header().Get("Grpc-Encoding") != "gzip" {
			t.Error("the answer is not compressed", resp.Header())
		}
		rec, err := s.engine.Get(t.Context(), stet.ID{Scope: "acme", Key: "5f1c2ab0-7d10-4f5e"})
		if err != nil || rec.State != stet.Completed || rec.Attempt != 1 {
			t.Errorf("the record is %s, attempt %d, %v", rec.State, rec.Attempt, err)
		}
	}
}

// Behind a guard a refusal reaches the client as an error of its protocol, over each of them.
func TestConnectHearsRefusals(t *testing.T) {
	for name, protocol := range map[string]connect.ClientOption{"connect": connect.WithProtoJSON(), "grpc-web": connect.WithGRPCWeb(),
		"grpc-web by itself": connect.WithGRPCWeb()} {
		s := newService(t)
		conf := stethttp.Config{Render: ConnectProblem}
		if strings.HasSuffix(name, "by itself") { // R04
			conf.Render = nil
		}
		guard := s.guardWith(conf)
		c := connect.NewClient[emptypb.Empty, wrapperspb.StringValue](&client, connectApp(t, s, guard)+charge, protocol)
		_, err := c.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{})) // it does not say whose it is
		got := new(connect.Error)
		if !errors.As(err, &got) || got.Code() != connect.CodeUnauthenticated || got.Meta().Get("Stet-Problem") != "unauthenticated" {
			t.Errorf("%s: %v, %v", name, err, got.Meta())
		}
	}
}

// Every problem has a code of its kind for clients of each protocol, and says which one it is.
func TestConnectProblem(t *testing.T) {
	byStatus := map[int]connect.Code{
		400: connect.CodeInvalidArgument, 401: connect.CodeUnauthenticated, 408: connect.CodeDeadlineExceeded, 409: connect.CodeAborted,
		412: connect.CodeFailedPrecondition,
		413: connect.CodeInvalidArgument, 422: connect.CodeInvalidArgument, 425: connect.CodeUnavailable,
		429: connect.CodeResourceExhausted, 502: connect.CodeUnavailable, 503: connect.CodeUnavailable, 504: connect.CodeDeadlineExceeded,
		508: connect.CodeFailedPrecondition,
	}
	url := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ConnectProblem(w, r, stethttp.NewProblem(stethttp.Code(strings.TrimPrefix(r.URL.Path, "/")), ""))
	}))
	protocols := map[string]connect.ClientOption{"connect": connect.WithProtoJSON(), "grpc-web": connect.WithGRPCWeb()}
	for name, protocol := range protocols {
		for _, page := range problems.Codes() {
			code := stethttp.Code(page)
			p := stethttp.NewProblem(code, "")
			if p.Status == 0 { // of the admin API
				continue
			}
			c := connect.NewClient[emptypb.Empty, emptypb.Empty](&client, url+"/"+string(code), protocol)
			_, err := c.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
			got := new(connect.Error)
			if !errors.As(err, &got) {
				t.Fatalf("%s, %s: %v", name, code, err)
			}
			if got.Code() != byStatus[p.Status] || got.Message() != p.Title || got.Meta().Get("Stet-Problem") != string(code) {
				t.Errorf("%s, %s: %v %q, problem %q", name, code, got.Code(), got.Message(), got.Meta().Get("Stet-Problem"))
			}
		}
	}
}
