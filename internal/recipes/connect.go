package recipes

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/stet-dev/stet/stethttp"
)

// Connect guards one procedure.
func Connect[Req, Res any](guard func(http.Handler) http.Handler, procedure string,
	unary func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error)) http.Handler {
	return guard(connect.NewUnaryHandler(procedure, unary))
}

// ConnectProblem is a [stethttp.Config.Render] for clients of Connect, gRPC and gRPC-Web: they read
// no problem documents.
func ConnectProblem(w http.ResponseWriter, r *http.Request, p *stethttp.Problem) {
	code := connect.CodeInvalidArgument
	switch p.Status {
	case http.StatusUnauthorized:
		code = connect.CodeUnauthenticated
	case http.StatusConflict:
		code = connect.CodeAborted
	case http.StatusPreconditionFailed, http.StatusLoopDetected:
		code = connect.CodeFailedPrecondition
	case http.StatusTooManyRequests:
		code = connect.CodeResourceExhausted
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		code = connect.CodeDeadlineExceeded
	case http.StatusTooEarly, http.StatusBadGateway, http.StatusServiceUnavailable:
		code = connect.CodeUnavailable
	}
	err := connect.NewError(code, errors.New(p.Title))
	err.Meta().Set("Stet-Problem", string(p.Code))
	_ = connect.NewErrorWriter().Write(w, r, err)
}
