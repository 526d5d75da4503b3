package adminclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/bulk"
)

// Status tells what needs a person, and how the parts are.
func (c *Client) Status(ctx context.Context) (admin.Status, error) {
	return get[admin.Status](ctx, c, "/api/v1/status")
}

// StatusOfDay is [Client.Status] with the series of a day, not of an hour.
func (c *Client) StatusOfDay(ctx context.Context) (admin.Status, error) {
	return get[admin.Status](ctx, c, "/api/v1/status?span=day")
}

// Routes lists what the requests of each route were told.
func (c *Client) Routes(ctx context.Context) ([]admin.RouteFigures, error) {
	return named[admin.RouteFigures](ctx, c, "/api/v1/routes", "routes")
}

// AuditQuery selects entries of the audit trail; what is zero selects all.
type AuditQuery struct {
	ID           string    `json:"id,omitzero"`
	Scope        string    `json:"scope,omitzero"`
	Who          string    `json:"who,omitzero"`
	Action       string    `json:"action,omitzero"`
	Notice       string    `json:"notice,omitzero"` // the id of the job, or of the notice, that asked for it
	Since, Until time.Time `json:"-"`
}

// Audit lists the audit trail, the newest first.
func (c *Client) Audit(q AuditQuery) List[admin.Entry] {
	all := values(q)
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			all.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	return List[admin.Entry]{c, "/api/v1/audit", "entries", all}
}

// Erase takes out of the audit trail whom its entries are about, and returns of how many.
func (c *Client) Erase(ctx context.Context, e admin.Erasure) (entries int, err error) {
	done, err := post[admin.Erased](ctx, c, "/api/v1/audit/erase", e)
	return done.Erased, err
}

// Store tells which store the records are in.
func (c *Client) Store(ctx context.Context) (admin.StoreIdentity, error) {
	return get[admin.StoreIdentity](ctx, c, "/api/v1/store")
}

// AcceptStore takes the store as it is, by the ID that it was shown to have.
func (c *Client) AcceptStore(ctx context.Context, as admin.Acceptance) (admin.StoreIdentity, error) {
	return post[admin.StoreIdentity](ctx, c, "/api/v1/store/accept", as)
}

// Jobs lists the latest bulk jobs.
func (c *Client) Jobs(ctx context.Context) ([]admin.Job, error) {
	return named[admin.Job](ctx, c, "/api/v1/bulk", "jobs")
}

// JobPath is a job's in the API.
func JobPath(id string) string { return "/api/v1/bulk/" + Segment(id) }

// Job shows a bulk job.
func (c *Client) Job(ctx context.Context, id string) (admin.Job, error) {
	return get[admin.Job](ctx, c, JobPath(id))
}

// Count counts what a bulk job would be about.
func (c *Client) Count(ctx context.Context, s admin.Selection) (admin.Count, error) {
	return post[admin.Count](ctx, c, "/api/v1/bulk/count", s)
}

// Start starts a bulk job, and returns its id.
func (c *Client) Start(ctx context.Context, o admin.Order) (id string, err error) {
	started, err := post[struct{ Job string }](ctx, c, "/api/v1/bulk", o)
	return started.Job, err
}

// StopJob stops a bulk job, which keeps its place.
func (c *Client) StopJob(ctx context.Context, id, reason string) (admin.Job, error) {
	return post[admin.Job](ctx, c, JobPath(id)+"/stop", map[string]string{"reason": reason})
}

// ResumeJob lets a stopped bulk job go on.
func (c *Client) ResumeJob(ctx context.Context, id, reason string) (admin.Job, error) {
	return post[admin.Job](ctx, c, JobPath(id)+"/resume", map[string]string{"reason": reason})
}

// Report lists the records that a bulk job could not change, or left for a reason.
func (c *Client) Report(ctx context.Context, id string) (all []bulk.Failure, err error) {
	path := JobPath(id) + "/report"
	a, err := c.exchange(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	for lines := json.NewDecoder(&a.body); ; {
		var f bulk.Failure
		switch err := lines.Decode(&f); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, unreadable(http.MethodGet, path, err)
		}
		all = append(all, f)
	}
}

// OutboxQuery selects messages; what is zero selects all.
type OutboxQuery struct {
	State string `json:"state,omitzero"`
	Topic string `json:"topic,omitzero"`
	Dead  bool   `json:"dead,omitzero"` // dead and unknown messages alone
}

// Outbox lists messages in the order in which they were added.
func (c *Client) Outbox(q OutboxQuery) List[admin.Message] {
	return List[admin.Message]{c, "/api/v1/outbox", "messages", values(q)}
}

// MessagePath is a message's in the API.
func MessagePath(id int64) string { return "/api/v1/outbox/" + strconv.FormatInt(id, 10) }

// Retry has a dead or unknown message delivered again.
func (c *Client) Retry(ctx context.Context, id int64, s admin.Settling) error {
	return c.Post(ctx, MessagePath(id)+"/retry", s, nil)
}

// Confirm says that a dead or unknown message was delivered.
func (c *Client) Confirm(ctx context.Context, id int64, s admin.Settling) error {
	return c.Post(ctx, MessagePath(id)+"/confirm", s, nil)
}

// Discard gives up a dead or unknown message.
func (c *Client) Discard(ctx context.Context, id int64, s admin.Settling) error {
	return c.Post(ctx, MessagePath(id)+"/discard", s, nil)
}
