package binlog

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestStatusVariables lists every status variable of statements that MySQL 9.7 and MariaDB 11.8 write, and says what
// becomes of it. It is what mysqlbinlog and mariadb-binlog print as SET, and what they read over.
func TestStatusVariables(t *testing.T) {
	t.Parallel()
	type set = map[string]string
	tests := map[byte]struct {
		value    string // without the code
		set      set
		harmless string // why
	}{
		0: {"\x00\x40\x00\x55", set{"sql_auto_is_null": "1", "foreign_key_checks": "0", "unique_checks": "1",
			"explicit_defaults_for_timestamp": "1", "sql_if_exists": "1", "system_versioning_insert_history": "1"}, ""},
		1:   {"\x04\x00\x00\x00\x01\x00\x00\x00", set{"sql_mode": "4294967300"}, ""},
		2:   {"\x03std\x00", nil, "MySQL 5.0.3 wrote the name of the catalog, of which there is one"},
		3:   {"\x0a\x00\x05\x00", set{"auto_increment_increment": "10", "auto_increment_offset": "5"}, ""},
		4:   {"\x21\x00\x2d\x00\xff\x00", set{"collation_connection": "45", "collation_server": "255"}, ""}, // and client
		5:   {"\x06+08:00", set{"time_zone": "'+08:00'"}, ""},
		6:   {"\x03std", nil, "the catalog"},
		7:   {"\x04\x00", set{"lc_time_names": "4"}, ""},
		8:   {"\x08\x00", set{"collation_database": "8"}, ""},
		9:   {"\x03\x00\x00\x00\x00\x00\x00\x00", nil, "which tables an UPDATE changes, for filters of replicas"},
		10:  {"\x03\x00\x00\x00", nil, "the length of the event at the source, in relay logs"},
		11:  {"\x01u\x01%", nil, "the definer, who is the owner here"},
		12:  {"\x02a\x00bc\x00", nil, "the changed databases, for replicas that apply in parallel"},
		13:  {"\x40\x42\x0f", set{"timestamp": "1700000000.1000000"}, ""},
		16:  {"\x01", set{"explicit_defaults_for_timestamp": "1"}, ""},
		17:  {"\x03\x00\x00\x00\x00\x00\x00\x00", nil, "the transaction in which the source has changed its dictionary"},
		18:  {"\x2d\x00", set{"default_collation_for_utf8mb4": "45"}, ""},
		19:  {"\x01", nil, "sql_require_primary_key only refuses tables, and the source has not refused this one"},
		20:  {"\x01", nil, "default_table_encryption is about files, as the target's own settings are"},
		21:  {"\x01", nil, "enable_cascade_triggers is about rows, and the log has what triggers have changed"},
		128: {"\x01\x00\x00", set{"timestamp": "1700000000.000001"}, ""},
		129: {"\x03\x00\x00\x00\x00\x00\x00\x00", nil, "as 17"},
		130: {"\x04\x03\x00\x00\x00\x00\x00\x00\x00", nil, "the end of an ALTER TABLE of two phases, which is the one that is repeated"},
		131: {"\x01\x2d\x00\x2e\x00", nil, ""}, // the collations, below
	}
	for code := range 256 {
		test, known := tests[byte(code)]
		if !known {
			test.value = "\x00"
		}
		e := queryWith(string([]byte{byte(code)}) + test.value)
		q, err := e.query()
		if unsupported, _ := errors.AsType[*UnsupportedError](err); known == (err != nil) || !known && unsupported == nil {
			t.Errorf("%d: %v", code, err)
			continue
		}
		if !known {
			continue
		}
		want := set{"timestamp": "1700000000"}
		maps.Copy(want, test.set)
		assert.False(t, !maps.Equal(q.set, want) || test.set == nil && test.harmless == "" && code != 131,
			"%d sets %v instead of %v", code, q.set, want)
		if (code == 4) != (q.client == 33) || (code == 131) != slices.Equal(q.collations, [][2]uint64{{45, 46}}) || q.repeated {
			t.Errorf("%d: %+v", code, q)
		}
		e = queryWith(string([]byte{byte(code)}) + test.value[:len(test.value)-1])
		_, err = e.query()
		assert.Error(t, err, "%d without its last byte: no error", code)
	}
	// Servers do not write them in the order of their codes.
	if q, err := queryWith("\x83\x00\x04\x21\x00\x2d\x00\xff\x00\x05\x06+08:00").query(); err != nil || q.client != 33 ||
		q.set["time_zone"] != "'+08:00'" || q.text != "DROP TABLE t" || q.database != "db_a" {
		t.Errorf("in another order: %+v, %v", q, err)
	}
	for value, repeated := range map[string]bool{"\x82\x02": true, "\x82\x08\x03\x00\x00\x00\x00\x00\x00\x00": true, "\x82\x00": false} {
		q, err := queryWith(value).query()
		assert.True(t, err == nil && q.repeated == repeated, "%q: %+v, %v", value, q, err)
	}
}

// TestFlags has every flag of statements.
func TestFlags(t *testing.T) {
	t.Parallel()
	known := map[int]string{14: "sql_auto_is_null", 15: "check_constraint_checks", 19: "", 24: "explicit_defaults_for_timestamp",
		26: "foreign_key_checks", 27: "unique_checks", 28: "sql_if_exists", 30: "system_versioning_insert_history"}
	for bit := range 32 {
		q, err := queryWith("\x00" + string(binary.LittleEndian.AppendUint32(nil, 1<<bit))).query()
		name, ok := known[bit]
		unsupported, _ := errors.AsType[*UnsupportedError](err)
		assert.False(t, ok != (err == nil) || !ok && unsupported == nil, "bit %d: %v", bit, err)
		want := "1"
		if strings.HasSuffix(name, "_checks") {
			want = "0"
		}
		assert.False(t, name != "" && q.set[name] != want, "bit %d: %v", bit, q.set)
	}
}

func queryWith(variables string) event {
	body := binary.LittleEndian.AppendUint16([]byte{0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0}, uint16(len(variables)))
	return event{header: header{kind: queryEvent, when: 1_700_000_000}, body: []byte(string(body) + variables + "db_a\x00DROP TABLE t")}
}

// TestEvents knows every kind of event: what is not known is refused, not read over.
func TestEvents(t *testing.T) {
	t.Parallel()
	carriedOut := []byte{queryEvent, intVarEvent, randEvent, userVarEvent, formatEvent, xidEvent, tableMapEvent, gtidEvent,
		anonymousEvent, xaPrepareEvent, taggedGTIDEvent, mariaGTIDEvent}
	for kind := range 256 {
		_, rows := rowsEvents[byte(kind)]
		if rows || slices.Contains(carriedOut, byte(kind)) {
			continue
		}
		r := &Replay{}
		_, err := r.event(t.Context(), event{header: header{kind: byte(kind)}})
		unsupported, _ := errors.AsType[*UnsupportedError](err)
		assert.NotEqual(t, unsupported != nil, harmlessEvents[byte(kind)], "the kind %d: %v", kind, err)
		_, err = r.event(t.Context(), event{header: header{kind: byte(kind), flags: ignorable}})
		assert.NoError(t, err, "the kind %d, ignorable", kind)
	}
}
