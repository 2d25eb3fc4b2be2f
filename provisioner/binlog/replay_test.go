package binlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestTimesOfClients sets the time of a transaction as a client of MariaDB can.
func TestTimesOfClients(t *testing.T) {
	t.Parallel()
	until := time.Unix(1_800_000_000, 0)
	target := Position{"binlog.000002", 500}
	for name, test := range map[string]struct {
		at    Position
		when  time.Time
		part  Part
		ended bool
	}{
		"before":             {target, until.Add(-time.Second), Part{until.Add(-time.Minute), target, until}, false},
		"in the same second": {target, until, Part{until.Add(-time.Minute), target, until}, true},
		"after":              {target, until.Add(time.Hour), Part{until.Add(-time.Minute), target, until}, true},
		"after, and archived before": {Position{"binlog.000001", 900}, until.Add(time.Hour),
			Part{until.Add(-time.Minute), target, until.Add(-readingTakes)}, false},
		"after, behind what is archived": {target, until.Add(time.Hour),
			Part{until.Add(-time.Minute), target, until.Add(-readingTakes)}, true},
		"after, archived just before": {Position{"binlog.000002", 4}, until.Add(time.Hour),
			Part{until.Add(-time.Minute), target, until.Add(-time.Second)}, true},
		"before, but archived later": {Position{"binlog.000002", 4}, until.Add(-time.Hour),
			Part{until, target, until.Add(time.Minute)}, true},
	} {
		r := &Replay{Until: until, at: test.at, part: test.part}
		ended, err := r.transaction(t.Context(), event{header: header{kind: mariaGTIDEvent, when: uint32(test.when.Unix())}})
		assert.True(t, err == nil && ended == test.ended && (ended || !r.committed.After(until)),
			"%s: ended %v, committed %s, %v", name, ended, r.committed, err)
	}
}

// MySQL writes when a transaction was committed, to the microsecond.
func TestTimesOfCommits(t *testing.T) {
	t.Parallel()
	until := time.Unix(1_800_000_000, 0)
	for after, want := range map[time.Duration]bool{-time.Second: false, 0: false, time.Microsecond: true} {
		body := make([]byte, 1+16+8+1+16+7)
		var micros [8]byte
		binary.LittleEndian.PutUint64(micros[:], uint64(until.Add(after).UnixMicro()))
		copy(body[len(body)-7:], micros[:])
		ended, err := (&Replay{Until: until}).transaction(t.Context(), event{header: header{kind: gtidEvent}, body: body})
		assert.True(t, err == nil && ended == want, "%v after the time: ended %v, %v", after, ended, err)
	}
}

func TestSavepoints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SAVEPOINT `a`":         "SAVEPOINT `a`",
		`SAVEPOINT "a"`:         "SAVEPOINT `a`",
		"ROLLBACK TO \"a\"":     "ROLLBACK TO `a`",
		"SAVEPOINT \"a\"\"`b\"": "SAVEPOINT `a\"``b`",
	} {
		assert.Equal(t, want, withBackticks(text), text)
	}
	r := &Replay{}
	r.xa.begin()
	assert.NoError(t, r.savepoint(t.Context(), "SAVEPOINT `a`"))
	var unsupported *UnsupportedError
	err := r.savepoint(t.Context(), "ROLLBACK TO `a`")
	assert.True(t, errors.As(err, &unsupported), "a partial rollback: %v", err)
}

func TestBinlogStatement(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "BINLOG 'AQ==\nAgM=\nBAUGBw==\n'", binlogStatement([][]byte{{1}, {2, 3}, {4, 5, 6, 7}}))
}

func TestTooLong(t *testing.T) {
	t.Parallel()
	d := dumping{at: Position{"binlog.000001", math.MaxUint32 - 100}}
	for size, want := range map[uint32]bool{100: false, 101: true} {
		assert.Equal(t, want, d.tooLong(header{kind: queryEvent, size: size}), "an event of %d bytes", size)
	}
	assert.ErrorIs(t, (&conn{}).dump(t.Context(), Position{"binlog.000001", 1 << 32}, nil), ErrTooLong,
		"from behind 4 GiB")
}

// A large event is not even read before there is the memory for it, which is given back.
func TestMemoryForLargeEvents(t *testing.T) {
	t.Parallel()
	head := make([]byte, headerBytes)
	binary.LittleEndian.PutUint32(head[9:], 3<<20)
	var held int64
	none := errors.New("no memory")
	for _, want := range []error{none, io.ErrUnexpectedEOF} {
		r := Replay{Reserve: func(_ context.Context, bytes int64) (func(), error) {
			assert.EqualValues(t, 15<<20, bytes)
			held += bytes
			return func() { held = 0 }, map[bool]error{true: none}[want == none]
		}}
		_, err := r.Read(t.Context(), bytes.NewReader(append(head, "some"...)), Part{})
		assert.ErrorIs(t, err, want)
	}
	assert.Zero(t, held)
}

// What users read of a statement has its subject, and none of its values.
func TestSubjects(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 'secret'": " about the trigger `r`",
		"CREATE ALGORITHM=MERGE VIEW IF NOT EXISTS `db`.`v` AS SELECT 'secret'": " about the view `v`",
		"CREATE TABLE t (v INT DEFAULT 'secret')":                               " about the table `t`",
		"CREATE PACKAGE BODY p AS PROCEDURE q() SELECT 1; END":                  " about the package `p`",
		"ALTER DATABASE db COMMENT 'secret'":                                    "",
		"CREATE TABLE 'secret'":                                                 "",
		"CREATE TABLE":                                                          "",
	} {
		assert.Equal(t, want, subject(tokens(text, 0, utf8mb4)), text)
	}
}

// Only MariaDB has histories by transactions. Its logs have other statements that change rows, too.
func TestStatementsThatChangeRows(t *testing.T) {
	t.Parallel()
	for mySQL, want := range map[bool]string{
		true:  "a statement that changes rows, and not these rows",
		false: "a statement that changes rows, and not these rows, as MariaDB writes for tables with a history by transactions",
	} {
		err := (&Replay{MySQL: mySQL}).refuse(t.Context(), query{}, tokens("DELETE FROM t", 0, utf8mb4))
		assert.Equal(t, &UnsupportedError{What: want}, err)
	}
}
