package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/groupcommit"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// maxRounds bounds how often a group of new records looks again. One round is enough unless another
// process creates the same records.
const maxRounds = 4

// carryCreates looks up all names of a group, answers those that are taken, and stores the others.
// Each of the two is one statement. A name that is taken in between undoes the second for all of
// them, so that they look again; any other refusal sends them on to be written alone, where a row
// that is held or poisoned delays no other.
func carryCreates(ctx context.Context, c *lane, batch []*job) error {
	for range maxRounds {
		var err error
		if batch, err = answerTaken(ctx, c, batch); err != nil || len(batch) == 0 {
			return err
		}
		// Of several with one name the first is stored, and the others find it in the next round.
		first, others := groupcommit.FirstOfEach(batch, compare)
		switch err = insertAll(ctx, c, first); {
		case err == nil:
			batch = others
		case answered(err) != mysqlDuplicate:
			separate(others)
			return err
		}
	}
	return nil
}

func separate(batch []*job) {
	for _, j := range batch {
		j.Err = groupcommit.ErrSeparate
	}
}

// answerTaken returns the jobs whose names are free, and answers the others.
func answerTaken(ctx context.Context, c *lane, batch []*job) (free []*job, err error) {
	first, _ := groupcommit.FirstOfEach(batch, compare)
	type found struct {
		r   stet.Record
		err error
	}
	there := map[stet.ID]found{}
	q := whose(new(sqltext.MySQL).Records(stet.SmallBody).Add(" FORCE INDEX (PRIMARY) WHERE "), first)
	err = eachMySQL(ctx, c, q, (*sqltext.Row).DestBody, func(row *sqltext.Row, now int64) {
		r, err := row.Record(now)
		there[row.ID()] = found{r, err}
	})
	if err != nil {
		separate(batch) // nothing was written yet
		return nil, err
	}
	for _, j := range batch {
		switch f, ok := there[j.Head.ID]; {
		case !ok:
			free = append(free, j)
		case f.err != nil:
			j.Err = f.err
		default:
			j.Got, j.Err = f.r, stet.ErrExists
		}
	}
	return free, nil
}

// whose appends a condition that records have the names of jobs.
func whose(q *sqltext.MySQL, jobs []*job) *sqltext.MySQL {
	for i, j := range jobs {
		if i > 0 {
			q.Add(" OR ")
		}
		q.Add("(").Whose(j.Head.ID).Add(")")
	}
	return q
}

// insertAll stores the records of jobs in one statement.
func insertAll(ctx context.Context, c *lane, jobs []*job) error {
	q := &sqltext.MySQL{}
	jobs[0].write.Into(q)
	for i, j := range jobs {
		q.Add([]string{"VALUES (", ", ("}[min(i, 1)])
		j.write.AddValues(q)
		if j.write.Known = (stet.Identity{}); i == 0 { // one that is refused refuses them all
			j.writeKnown()
		}
		j.write.AddBirth(q, i == 0)
		q.Add(")")
	}
	_, at, err := exec(ctx, c, q)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		j.Done(at)
		j.Err = nil
	}
	return nil
}

// errCount should never be seen: rows that were locked were not there to be changed.
var errCount = errors.New("a group changed another number of rows than it locked")

// carryChanges locks the rows of a group, except those that another transaction holds, and changes
// or removes those of the version expected. The others, and all of them if the server refuses, are
// to be written alone: there it turns out why.
func carryChanges(ctx context.Context, c *lane, batch []*job) error {
	ready, others := groupcommit.FirstOfEach(batch, compare)
	separate(others)
	var rows map[stet.ID]lockedRow
	err := transact(ctx, c, func() (err error) {
		if rows, err = lock(ctx, c, ready); err != nil {
			return err
		}
		first := ready
		ready = nil
		for _, j := range first {
			if r, ok := rows[j.Head.ID]; ok && r.version == j.Prev && r.schema == sqltext.Schema {
				ready = append(ready, j)
			} else {
				j.Err = groupcommit.ErrSeparate
			}
		}
		for _, v := range []tablestore.Verb{tablestore.ReplaceHead, tablestore.ReplaceAll, tablestore.Remove} {
			if err := change(ctx, c, v, of(ready, v), rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, j := range ready {
		if j.Err = nil; j.Verb != tablestore.Remove {
			j.Done(rows[j.Head.ID].at)
		}
	}
	return nil
}

func of(jobs []*job, v tablestore.Verb) []*job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return j.Verb != v })
}

// lockedRow is what is known of a row that this transaction holds.
type lockedRow struct {
	version stet.Version
	schema  int
	at      int64 // when it is changed: now, and no record's time goes back
}

func lock(ctx context.Context, c *lane, jobs []*job) (map[stet.ID]lockedRow, error) {
	return versions(ctx, c, whose(new(sqltext.MySQL).Add(sqltext.MySQLVersions+" FORCE INDEX (PRIMARY) WHERE "), jobs).Add(" FOR UPDATE SKIP LOCKED"))
}

// versions reads rows of [sqltext.MySQLVersions].
func versions(ctx context.Context, c *lane, q *sqltext.MySQL) (map[stet.ID]lockedRow, error) {
	held := map[stet.ID]lockedRow{}
	err := eachRow(ctx, c, q, func(row sqltext.Scanner) error {
		var r lockedRow
		var id stet.ID
		var now, updated int64
		if err := row.Scan(&now, &id.Scope, &id.Key, &r.version, &r.schema, &updated); err != nil {
			return sqltext.Unread(ctx, err)
		}
		r.at = max(now, updated)
		held[id] = r
		return nil
	})
	return held, err
}

// change carries out the jobs, which are of one verb, on rows that are locked.
func change(ctx context.Context, c *lane, v tablestore.Verb, jobs []*job, rows map[stet.ID]lockedRow) error {
	if len(jobs) == 0 {
		return nil
	}
	q, each := &sqltext.MySQL{}, int64(1)
	if v == tablestore.Remove {
		whose(q.Add("DELETE r FROM stet_records r FORCE INDEX (PRIMARY) WHERE "), jobs)
	} else {
		each = 2 // the server's count of a row that was there and is changed
		jobs[0].write.Into(q)
		for i, j := range jobs {
			q.Add([]string{"VALUES (", ", ("}[min(i, 1)])
			j.write.AddValues(q)
			s := sqltext.Changed(&j.Head, rows[j.Head.ID].at)
			j.write.AddStamp(q, &s)
			q.Add(")")
		}
		jobs[0].write.Over(q)
	}
	n, _, err := exec(ctx, c, q)
	if err == nil && n != each*int64(len(jobs)) {
		err = fmt.Errorf("%w: %d of %d", errCount, n, len(jobs))
	}
	return err
}
