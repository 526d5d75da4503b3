package adminclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/stet-dev/stet/admin"
	"github.com/stet-dev/stet/internal/members"
	"github.com/stet-dev/stet/operate"
)

var _ admin.API = (*Client)(nil)

// The methods of [admin.API] each make one call.

// Whoami implements [admin.API].
func (c *Client) Whoami(ctx context.Context) (admin.Whoami, error) {
	return get[admin.Whoami](ctx, c, "/api/v1/whoami")
}

// Overview implements [operate.API].
func (c *Client) Overview(ctx context.Context) (operate.Status, error) {
	return get[operate.Status](ctx, c, "/api/v1/status")
}

// Routes implements [admin.API].
func (c *Client) Routes(ctx context.Context) (admin.RouteList, error) {
	return get[admin.RouteList](ctx, c, "/api/v1/routes")
}

// Policy implements [admin.API].
func (c *Client) Policy(ctx context.Context) (admin.PolicyDoc, error) {
	return get[admin.PolicyDoc](ctx, c, "/policy.json")
}

// Settings implements [admin.API].
func (c *Client) Settings(ctx context.Context) (admin.SettingList, error) {
	return get[admin.SettingList](ctx, c, "/api/v1/config")
}

// Trail lists the audit trail, the newest first.
func (c *Client) Trail(q operate.AuditQuery) List[operate.Entry] {
	return List[operate.Entry]{c, "/api/v1/audit", "entries", members.Values(q)}
}

// Audit implements [operate.API].
func (c *Client) Audit(ctx context.Context, q operate.AuditQuery) (operate.EntryList, error) {
	return get[operate.EntryList](ctx, c, "/api/v1/audit?"+members.Values(q).Encode())
}

// Erase implements [operate.API].
func (c *Client) Erase(ctx context.Context, e operate.Erasure) (operate.Erased, error) {
	return post[operate.Erased](ctx, c, "/api/v1/audit/erase", e)
}

// Store implements [operate.API].
func (c *Client) Store(ctx context.Context) (*operate.StoreIdentity, error) {
	return get[*operate.StoreIdentity](ctx, c, "/api/v1/store")
}

// AcceptStore implements [operate.API].
func (c *Client) AcceptStore(ctx context.Context, as operate.Acceptance) (*operate.StoreIdentity, error) {
	return post[*operate.StoreIdentity](ctx, c, "/api/v1/store/accept", as)
}

// RecentJobs implements [operate.API].
func (c *Client) RecentJobs(ctx context.Context) (operate.JobList, error) {
	return get[operate.JobList](ctx, c, "/api/v1/bulk")
}

// JobPath is a job's in the API.
func JobPath(id string) string { return "/api/v1/bulk/" + Segment(id) }

// Job implements [operate.API].
func (c *Client) Job(ctx context.Context, id string) (operate.Job, error) {
	return get[operate.Job](ctx, c, JobPath(id))
}

// Preview implements [operate.API].
func (c *Client) Preview(ctx context.Context, s operate.Selection) (operate.Count, error) {
	return post[operate.Count](ctx, c, "/api/v1/bulk/count", s)
}

// Start implements [operate.API].
func (c *Client) Start(ctx context.Context, o operate.Order) (operate.Started, error) {
	return post[operate.Started](ctx, c, "/api/v1/bulk", o)
}

// StopJob implements [operate.API].
func (c *Client) StopJob(ctx context.Context, id string, why operate.Reason) (operate.Job, error) {
	return post[operate.Job](ctx, c, JobPath(id)+"/stop", why)
}

// Report implements [operate.API].
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
	return List[operate.Message]{c, outboxPath, "messages", members.Values(q)}
}

const outboxPath = "/api/v1/outbox"

// Messages implements [operate.API].
func (c *Client) Messages(ctx context.Context, q operate.MessageQuery) (operate.MessageList, error) {
	return get[operate.MessageList](ctx, c, outboxPath+"?"+members.Values(q).Encode())
}

// MessagePath is a message's in the API.
func MessagePath(id string) string { return outboxPath + "/" + Segment(id) }

// Message implements [operate.API].
func (c *Client) Message(ctx context.Context, id string) (operate.Message, error) {
	return get[operate.Message](ctx, c, MessagePath(id))
}

// RevealMessage implements [operate.API].
func (c *Client) RevealMessage(ctx context.Context, id, why string) (operate.Message, error) {
	return get[operate.Message](ctx, c, MessagePath(id)+Revealing(why))
}

// Retry implements [operate.API].
func (c *Client) Retry(ctx context.Context, id string, s operate.Settling) (operate.Message, error) {
	return post[operate.Message](ctx, c, MessagePath(id)+"/retry", s)
}

// Confirm implements [operate.API].
func (c *Client) Confirm(ctx context.Context, id string, s operate.Settling) (operate.Message, error) {
	return post[operate.Message](ctx, c, MessagePath(id)+"/confirm", s)
}

// Discard implements [operate.API].
func (c *Client) Discard(ctx context.Context, id string, s operate.Settling) (operate.Message, error) {
	return post[operate.Message](ctx, c, MessagePath(id)+"/discard", s)
}
