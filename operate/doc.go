// Package operate is what operators do with the records of one engine: they look at what is unknown
// and at what follows from it, say what became of it, and leave an entry in the audit trail.
//
//	service, err := operate.New(operate.Config{Engine: engine})
//	...
//	desk := service.For(operate.Caller{Name: "kim", Role: operate.Operator}, nil)
//	list, err := desk.Incidents(ctx, operate.IncidentQuery{})
//	...
//	record, err := desk.Release(ctx, operate.Name{Key: id}, operate.Resolution{Change: change})
//
// All rules are here: which role a call takes, which scopes a [Caller] reaches, on which [Condition]
// a record is changed, what is written down before anything is shown. The HTTP API, the console and
// the commands call a [Desk], or something that speaks to one, and have no rules of their own.
//
// The documents ([Record], [Incident], [Status] and others) have the JSON form of the API. A
// [Record] never has the key, the request or the response unless [Desk.Reveal] was asked for them.
package operate
