package operate

import "context"

// API is all that an operator can do with the records of one engine. [Service.For] returns it for a
// caller in this process, as a [Desk], and a client of package adminclient has it over HTTP. The
// methods of the Desk say what each does and which role it takes. A refusal is a [*Problem], or what
// [ProblemOf] makes one of.
type API interface {
	Overview(ctx context.Context) (Status, error)
	Incidents(ctx context.Context, q IncidentQuery) (IncidentList, error)
	Incident(ctx context.Context, id string, s Shown) (Incident, error)
	Records(ctx context.Context, q RecordQuery) (RecordList, error)
	Record(ctx context.Context, n Name) (Record, error)
	Reveal(ctx context.Context, n Name, why string) (Record, error)
	Find(ctx context.Context, q SearchQuery) (Search, error)
	Audit(ctx context.Context, q AuditQuery) (EntryList, error)
	Store(ctx context.Context) (*StoreIdentity, error)

	Resolve(ctx context.Context, n Name, r Resolution) (Record, error)
	Release(ctx context.Context, n Name, r Resolution) (Record, error)
	Extend(ctx context.Context, n Name, x Extension) (Record, error)
	Delete(ctx context.Context, n Name, c Change) error
	Probe(ctx context.Context, n Name, q Question) (Probed, error)
	Note(ctx context.Context, n Name, r Remark) (Record, error)
	Snooze(ctx context.Context, n Name, s Snoozing) (Record, error)
	Hand(ctx context.Context, n Name, to Handing) (Record, error)
	Erase(ctx context.Context, e Erasure) (Erased, error)
	AcceptStore(ctx context.Context, a Acceptance) (*StoreIdentity, error)

	Preview(ctx context.Context, s Selection) (Count, error)
	Start(ctx context.Context, o Order) (Started, error)
	RecentJobs(ctx context.Context) (JobList, error)
	Job(ctx context.Context, id string) (Job, error)
	Report(ctx context.Context, id string) ([]Failure, error)
	StopJob(ctx context.Context, id string, why Reason) (Job, error)

	Messages(ctx context.Context, q MessageQuery) (MessageList, error)
	Message(ctx context.Context, id string) (Message, error)
	RevealMessage(ctx context.Context, id, why string) (Message, error)
	Retry(ctx context.Context, id string, s Settling) (Message, error)
	Discard(ctx context.Context, id string, s Settling) (Message, error)
	Confirm(ctx context.Context, id string, s Settling) (Message, error)
}

var _ API = (*Desk)(nil)
