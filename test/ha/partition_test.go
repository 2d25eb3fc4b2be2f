package ha

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/network"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// writableTime is how long a group may accept no writes after its primary was cut off.
const writableTime = 30 * time.Second

// The members of a group with the settings of dedicated servers are on hosts of their own, and the network between them
// fails while applications write to every member. A member that is cut off acknowledges nothing; the others go on.
func TestPartition(t *testing.T) {
	t.Parallel()
	if !slices.ContainsFunc(servers.AllMySQL(t), func(s servers.MySQL) bool { return s.Flavour == mysqld.MySQL }) {
		t.Skip("no program of MySQL is installed")
	}
	n, hosts := network.New(t, 3)
	w := &partitionWorld{Cluster: testdrive.StartGroup(t, hosts...), Network: n}
	w.makeTable(t)
	for round := range rounds(3) {
		t.Logf("round %d", round+1)
		w.expectMajorityGoesOn(t, "the primary is cut off", func(primary int) { n.Cut(hosts[primary]) })
		w.expectNobodyWrites(t, hosts, false)
		if !long() {
			continue
		}
		w.expectNobodyWrites(t, hosts, true)
		w.expectMajorityGoesOn(t, "what the primary sends is lost", func(primary int) { w.oneWay(hosts, primary, true) })
		w.expectMajorityGoesOn(t, "what is sent to the primary is lost", func(primary int) { w.oneWay(hosts, primary, false) })
		w.expectSlow(t, "packets to and from the primary take 100 ms", hosts, network.Rule{Delay: 100 * time.Millisecond})
		w.expectSlow(t, "5 % of packets to and from the primary are lost", hosts, network.Rule{Loss: 0.05})
	}
	t.Logf("%d rows were acknowledged", w.total)
}

// partitionWorld is a group whose members are on hosts of a network, and applications that write to each of them. The
// applications are outside: they reach every member all the time.
type partitionWorld struct {
	*testdrive.Cluster
	*network.Network
	app   audit.Credentials
	total int
}

func (w *partitionWorld) makeTable(t *testing.T) {
	t.Helper()
	w.app = audit.Credentials{Username: "writer", Password: "of-the-tests", Database: "checked", CACertificate: w.Nodes[0].CA}
	for _, statement := range []string{"CREATE DATABASE checked",
		"CREATE TABLE checked.written (n BIGINT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(40) NOT NULL)",
		"CREATE USER writer IDENTIFIED BY '" + w.app.Password + "'",
		"GRANT SELECT, INSERT ON checked.* TO writer"} {
		if err := w.Nodes[w.Primary(t)].Exec(t, statement); err != nil {
			t.Fatal(err)
		}
	}
}

// written is a row that was acknowledged.
type written struct {
	text            string
	by              int // the member
	begun, answered time.Time
}

// load is what applications write until it is stopped.
type load struct {
	stop  func()
	mu    sync.Mutex
	rows  []written
	tries [3]atomic.Int64 // of each member
}

const writersEach = 2

// write has applications write to each member, also if that refuses.
func (w *partitionWorld) write(t *testing.T) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{}
	var writing sync.WaitGroup
	for n, node := range w.Nodes {
		at := w.app
		at.Host, at.Port = node.Host, node.Port
		db, err := at.Open()
		if err != nil {
			t.Fatal(err)
		}
		for range writersEach {
			writing.Go(func() { l.writeTo(ctx, n, db) })
		}
		t.Cleanup(func() { db.Close() })
	}
	l.stop = sync.OnceFunc(func() { cancel(); writing.Wait() })
	t.Cleanup(l.stop)
	return l
}

func (l *load) writeTo(ctx context.Context, member int, db *sql.DB) {
	for ctx.Err() == nil {
		row := written{text: uuid.NewString(), by: member, begun: time.Now()}
		limited, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := db.ExecContext(limited, "INSERT INTO written (text) VALUES (?)", row.text)
		cancel()
		l.tries[member].Add(1)
		if err != nil {
			time.Sleep(50 * time.Millisecond) // as applications try again
			continue
		}
		row.answered = time.Now()
		l.mu.Lock()
		l.rows = append(l.rows, row)
		l.mu.Unlock()
		time.Sleep(5 * time.Millisecond) // so that a busy machine has time for the servers
	}
}

// since lists the rows that were begun after a moment, and acknowledged by the members that are chosen.
func (l *load) since(when time.Time, chosen func(member int) bool) (found []written) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range l.rows {
		if row.begun.After(when) && chosen(row.by) {
			found = append(found, row)
		}
	}
	return found
}

func anyMember(int) bool { return true }

// awaitRows waits until so many rows were begun after a moment, and acknowledged by the members that are chosen.
func (l *load) awaitRows(t *testing.T, what string, count int, when time.Time, chosen func(int) bool) time.Duration {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, what, func() bool { return len(l.since(when, chosen)) >= count })
	return time.Since(when)
}

// expectMajorityGoesOn expects that the members that still hear each other are writable within writableTime, and that
// the one that was the primary acknowledges nothing from then on.
func (w *partitionWorld) expectMajorityGoesOn(t *testing.T, what string, happen func(primary int)) {
	t.Helper()
	primary := w.Primary(t)
	l := w.write(t)
	l.awaitRows(t, "rows are written", 50, time.Time{}, anyMember)
	happen(primary)
	cut, interval := time.Now(), limits.Watch()
	took := l.awaitRows(t, what+": the others go on", 20, cut, func(n int) bool { return n != primary })
	interval.Prompt(t, what+": writable again", took, writableTime)
	l.awaitTries(t, primary, 8)
	w.expectCutOff(t, primary)
	l.awaitRows(t, what+": the others still write", 20, time.Now(), func(n int) bool { return n != primary })
	l.expectNone(t, what, cut, time.Now(), func(n int) bool { return n == primary })
	w.heal(t, l, what, fmt.Sprintf("writable after %.1f s", took.Seconds()))
}

// awaitTries waits until an application has tried to write to a member so many more times.
func (l *load) awaitTries(t *testing.T, member int, more int64) {
	t.Helper()
	before := l.tries[member].Load()
	testdrive.Eventually(t, limits.Stuck, "applications try", func() bool {
		return l.tries[member].Load() >= before+more
	})
}

// expectCutOff waits until a member knows that it has no majority.
func (w *partitionWorld) expectCutOff(t *testing.T, member int) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "the member knows that it is cut off", func() bool {
		has, err := w.HasMajority(t, w.Nodes[member])
		return err == nil && !has
	})
}

// expectLeft waits until a member has left the group.
func (w *partitionWorld) expectLeft(t *testing.T, member int) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "the member leaves the group", func() bool {
		var state string
		err := w.Nodes[member].Query(t, `SELECT member_state FROM performance_schema.replication_group_members
			WHERE member_id = @@server_uuid`, &state)
		return err == nil && (state == "ERROR" || state == "OFFLINE")
	})
}

// expectNone expects that the members that are chosen have acknowledged nothing that was begun between two moments.
func (l *load) expectNone(t *testing.T, what string, from, to time.Time, chosen func(int) bool) {
	t.Helper()
	for _, row := range l.since(from, chosen) {
		if row.begun.Before(to) && row.answered.Before(to) {
			t.Errorf("%s: %.1f s later, member %d acknowledged a row", what, row.begun.Sub(from).Seconds(), row.by+1)
		}
	}
}

// heal repairs the network, and expects that all members are the same, with every acknowledged row once.
func (w *partitionWorld) heal(t *testing.T, l *load, what, figures string) {
	t.Helper()
	w.Heal()
	healed := time.Now()
	w.Reassemble(t)
	complete := time.Since(healed)
	l.awaitRows(t, "rows are written again", 20, time.Now(), anyMember)
	l.stop()
	w.compare(t, l.rows)
	w.total += len(l.rows)
	t.Logf("%s: %s; three members %.1f s after it was healed; %d rows acknowledged; tries of each member: %d, %d, %d", what,
		figures, complete.Seconds(), len(l.rows), l.tries[0].Load(), l.tries[1].Load(), l.tries[2].Load())
}

// expectNobodyWrites cuts two members off, so that there is no majority. If forLong is true, it lasts until the
// members have left the group, so that there is none any more.
func (w *partitionWorld) expectNobodyWrites(t *testing.T, hosts []*network.Host, forLong bool) {
	t.Helper()
	primary := w.Primary(t)
	l := w.write(t)
	l.awaitRows(t, "rows are written", 50, time.Time{}, anyMember)
	w.Cut(hosts[primary])
	w.Cut(hosts[(primary+1)%3])
	cut := time.Now()
	for n := range hosts {
		l.awaitTries(t, n, 8)
		w.expectCutOff(t, n)
	}
	for n := range hosts {
		if forLong {
			w.expectLeft(t, n)
		}
	}
	l.expectNone(t, "two members are cut off", cut, time.Now(), anyMember)
	w.heal(t, l, "two members are cut off", fmt.Sprintf("nothing was written for %.1f s", time.Since(cut).Seconds()))
}

// oneWay loses what a member sends to the others, or what they send to it.
func (w *partitionWorld) oneWay(hosts []*network.Host, member int, sends bool) {
	for n, other := range hosts {
		switch {
		case n == member:
		case sends:
			w.Set(hosts[member], other, network.Lost)
		default:
			w.Set(other, hosts[member], network.Lost)
		}
	}
}

// expectSlow makes the network around the primary slow. Rows go on to be written, by whatever member.
func (w *partitionWorld) expectSlow(t *testing.T, what string, hosts []*network.Host, rule network.Rule) {
	t.Helper()
	primary := w.Primary(t)
	l := w.write(t)
	l.awaitRows(t, "rows are written", 50, time.Time{}, anyMember)
	for n, other := range hosts {
		if n != primary {
			w.Set(hosts[primary], other, rule)
			w.Set(other, hosts[primary], rule)
		}
	}
	began, interval := time.Now(), limits.Watch()
	took := l.awaitRows(t, what+": rows are written", 20, began, anyMember)
	interval.Prompt(t, what+": writable again", took, writableTime)
	l.awaitRows(t, what+": more rows are written", 100, began, anyMember)
	w.heal(t, l, what, fmt.Sprintf("20 rows after %.1f s, 100 after %.1f s", took.Seconds(), time.Since(began).Seconds()))
}

// compare expects that all members have the same rows, each of them once, and all that were acknowledged among them.
func (w *partitionWorld) compare(t *testing.T, acknowledged []written) {
	t.Helper()
	var sums [3]string
	testdrive.Eventually(t, limits.Stuck, "all members are the same", func() bool {
		w.Reassemble(t) // a member may be excluded because it is slow
		for n, node := range w.Nodes {
			var table string
			if err := node.Query(t, "CHECKSUM TABLE checked.written", &table, &sums[n]); err != nil {
				return false
			}
		}
		return sums[0] == sums[1] && sums[0] == sums[2]
	})
	var rows, different int
	if err := w.Nodes[0].Query(t, "SELECT COUNT(*), COUNT(DISTINCT text) FROM checked.written", &rows, &different); err != nil {
		t.Fatal(err)
	}
	if rows != different {
		t.Errorf("%d rows are there twice", rows-different)
	}
	lost := 0
	for some := range slices.Chunk(acknowledged, 500) {
		var texts []string
		for _, row := range some {
			texts = append(texts, "'"+row.text+"'")
		}
		var there int
		if err := w.Nodes[0].Query(t, "SELECT COUNT(*) FROM checked.written WHERE text IN ("+strings.Join(texts, ",")+")",
			&there); err != nil {
			t.Fatal(err)
		}
		lost += len(some) - there
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged rows are lost", lost, len(acknowledged))
	}
}
