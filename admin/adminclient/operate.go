package adminclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/stet-dev/stet/operate"
)

// Status tells what needs a person, and how the parts are.
func (c *Client) Status(ctx context.Context) (operate.Status, error) {
	return get[operate.Status](ctx, c, "/api/v1/status")
}

// StatusOfDay is [Client.Status] with the series of a day, not of an hour.
func (c *Client) StatusOfDay(ctx context.Context) (operate.Status, error) {
	return get[operate.Status](ctx, c, "/api/v1/status?span=day")
}

// Routes lists what the requests of each route were told.
func (c *Client) Routes(ctx context.Context) ([]operate.RouteFigures, error) {
	return named[operate.RouteFigures](ctx, c, "/api/v1/routes", "routes")
}

// Audit lists the audit trail, the newest first.
func (c *Client) Audit(q operate.AuditQuery) List[operate.Entry] {
	return List[operate.Entry]{c, "/api/v1/audit", "entries", values(q)}
}

// Erase takes out of the audit trail whom its entries are about, and returns of how many.
func (c *Client) Erase(ctx context.Context, e operate.Erasure) (entries int, err error) {
	done, err := post[operate.Erased](ctx, c, "/api/v1/audit/erase", e)
	return done.Erased, err
}

// Store tells which store the records are in.
func (c *Client) Store(ctx context.Context) (operate.StoreIdentity, error) {
	return get[operate.StoreIdentity](ctx, c, "/api/v1/store")
}

// AcceptStore takes the store as it is, by the ID that it was shown to have.
func (c *Client) AcceptStore(ctx context.Context, as operate.Acceptance) (operate.StoreIdentity, error) {
	return post[operate.StoreIdentity](ctx, c, "/api/v1/store/accept", as)
}

// Jobs lists the latest bulk jobs.
func (c *Client) Jobs(ctx context.Context) ([]operate.Job, error) {
	return named[operate.Job](ctx, c, "/api/v1/bulk", "jobs")
}

// JobPath is a job's in the API.
func JobPath(id string) string { return "/api/v1/bulk/" + Segment(id) }

// Job shows a bulk job.
func (c *Client) Job(ctx context.Context, id string) (operate.Job, error) {
	return get[operate.Job](ctx, c, JobPath(id))
}

// Count counts what a bulk job would be about.
func (c *Client) Count(ctx context.Context, s operate.Selection) (operate.Count, error) {
	return post[operate.Count](ctx, c, "/api/v1/bulk/count", s)
}

// Start starts a bulk job, and returns its id.
func (c *Client) Start(ctx context.Context, o operate.Order) (id string, err error) {
	started, err := post[struct{ Job string }](ctx, c, "/api/v1/bulk", o)
	return started.Job, err
}

// StopJob stops a bulk job.
func (c *Client) StopJob(ctx context.Context, id, reason string) (operate.Job, error) {
	return post[operate.Job](ctx, c, JobPath(id)+"/stop", operate.Reason{Reason: reason})
}

// Report lists the records that a bulk job could not change, or left for a reason.
func (c *Client) Report(ctx context.Context, id string) (all []operate.Failure, err error) {
	path := JobPath(id) + "/report"
	a, err := c.exchange(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	for lines := json.NewDecoder(&a.body); ; {
		var f operate.Failure
		switch err := lines.Decode(&f); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, unreadable(http.MethodGet, path, err)
		}
		all = append(all, f)
	}
}

// Outbox lists messages in the order in which they were added.
func (c *Client) Outbox(q operate.MessageQuery) List[operate.Message] {
	return List[operate.Message]{c, "/api/v1/outbox", "messages", values(q)}
}

// MessagePath is a message's in the API.
func MessagePath(id int64) string { return "/api/v1/outbox/" + strconv.FormatInt(id, 10) }

// Retry has a dead or unknown message delivered again.
func (c *Client) Retry(ctx context.Context, id int64, s operate.Settling) error {
	return c.Post(ctx, MessagePath(id)+"/retry", s, nil)
}

// Confirm says that a dead or unknown message was delivered.
func (c *Client) Confirm(ctx context.Context, id int64, s operate.Settling) error {
	return c.Post(ctx, MessagePath(id)+"/confirm", s, nil)
}

// Discard gives up a dead or unknown message.
func (c *Client) Discard(ctx context.Context, id int64, s operate.Settling) error {
	return c.Post(ctx, MessagePath(id)+"/discard", s, nil)
}
