package recipes

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
)

func Connect[Req, Res any](guard func(http.Handler) http.Handler, procedure string,
	unary func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error)) http.Handler {
	return guard(connect.NewUnaryHandler(procedure, unary))
}
