package copying

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// One organization takes all turns that it can get, and waits for more. Another one begins at once, a third one has the
// next that is free, and who waits for something else has none.
func TestCopyTurnsGoRoundByOrganization(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCopyTurns(16, nil) // eight turns, two of each server
		begin := func(id int64, server, organization string, want bool) {
			time.Sleep(copyTurnInterval / 10)
			assert.Equal(t, want, c.begin(store.Task{ID: id, Server: server, Organization: organization}) == "",
				"task %d on %q of %q", id, server, organization)
		}
		begin(1, "a", "greedy", true)
		begin(2, "a", "greedy", false)
		begin(3, "a", "other", true)
		begin(4, "a", "third", false)
		c.end(1)
		begin(2, "a", "greedy", false) // the third has had none yet
		begin(5, "b", "greedy", true)  // which waits at another server
		begin(4, "a", "third", true)
		c.end(4)
		begin(6, "a", "third", false)
		begin(2, "a", "greedy", true) // its last one was before that of the third
		c.end(3)
		begin(6, "a", "third", true)

		// What is frozen keeps its turn from step to step, and none while it waits.
		c.keep(6)
		begin(7, "a", "other", false)
		begin(6, "a", "third", true)
		c.leave(6)
		begin(7, "a", "other", true)
		begin(6, "a", "third", true)
		c.keep(6)
		c.end(2)
		c.end(7)
		time.Sleep(keepTurn)
		begin(8, "a", "other", true)
		begin(9, "a", "third", true) // the sixth did not go on

		for id := range int64(6) {
			begin(20+id, "", "greedy", id < 5) // with that on b, three quarters
		}
		time.Sleep(waitsForTurn)
		begin(30, "", "", false)
		c.end(20)
		begin(30, "", "", true)
	})

	c := newCopyTurns(1, nil)
	for id, want := range []bool{true, false} {
		assert.Equal(t, want, c.begin(store.Task{ID: int64(id), Organization: "o"}) == "",
			"of a single turn, task %d: %v", id, !want)
	}
}

// A copy that waits for a restore of its source has neither a turn nor an account, and is not stuck.
func TestCopyWaitsForRestore(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error {
		tx.Adopt(store.InstanceCopy{ID: "i", Database: "db"}, store.SharedLocation("a"))
		tx.InsertTask(store.NewTask{InstanceID: "i", Kind: store.Restore, PlanID: "p"})
		return nil
	}))
	c := New(&steps.Servers{Engine: &engine.Engine{Store: s}}, 0, nil)
	f := Filling{Copier: c, Parameters: plan.InstanceParameters{CloneFrom: "i"}}
	err := f.Steps()[0].Do(t.Context(), &task.Run{})
	assert.Equal(t, task.Queued(5*time.Second, "Waiting until the service instance to copy is restored"), err)
	assert.Empty(t, c.turns.last)
}

// TestTenants asks for the data of one instance for another one.
func TestTenants(t *testing.T) {
	t.Parallel()
	const cf, kubernetes = `{"platform":"cloudfoundry"}`, `{"platform":"kubernetes","clusterid":"c","namespace":"n"}`
	closed, open := plan.Plan{}, plan.Plan{AllowCrossSpace: true}
	of := func(organization, space, context string) Tenant {
		return TenantOf(organization, space, json.RawMessage(context))
	}
	const cluster2 = `{"platform":"kubernetes","clusterid":"d","namespace":"n"}`
	for _, test := range []struct {
		name           string
		of, by         Tenant
		source, target plan.Plan
		want           bool
	}{
		{"the same space", of("o", "s", cf), of("o", "s", cf), closed, closed, true},
		{"another space", of("o", "s", cf), of("o", "s2", cf), closed, closed, false},
		{"another organization", of("o", "s", cf), of("o2", "s", cf), closed, closed, false},
		{"another platform", of("o", "s", cf), of("o", "s", `{"platform":"x"}`), closed, closed, false},
		{"no space", of("o", "", cf), of("o", "", cf), closed, closed, false},
		{"no context", of("o", "s", ""), of("o", "s", ""), closed, closed, false},
		{"a context of other form", of("o", "s", `[]`), of("o", "s", `[]`), closed, closed, false},
		{"the same namespace", of("o", "s", kubernetes), of("o2", "s2", kubernetes), closed, closed, true},
		{"another cluster", of("o", "s", kubernetes), of("o", "s", cluster2), closed, closed, false},
		{"allowed by both plans", of("o", "s", ""), of("o", "s2", ""), open, open, true},
		{"allowed by the source's plan", of("o", "s", ""), of("o", "s2", ""), open, closed, false},
		{"allowed by the new plan", of("o", "s", ""), of("o", "s2", ""), closed, open, false},
	} {
		assert.Equal(t, test.want, test.by.MayUse(test.of, test.target, test.source), test.name)
	}
	for context, lacks := range map[string]string{cf: "", kubernetes: "", ``: `"platform"`, `[]`: `"platform"`,
		`{"platform":1}`: `"platform"`, `{"platform":"kubernetes","namespace":"n"}`: `"clusterid"`,
		`{"platform":"kubernetes","clusterid":"c"}`: `"namespace"`} {
		by := TenantOf("o", "s", json.RawMessage(context))
		got := by.Refuse(noSource("x")).Error()
		assert.True(t, (got == noSource("x").Error()) == (lacks == "") && strings.Contains(got, lacks),
			"with the context %s: %s", context, got)
	}
	assert.EqualError(t, noSource("x"), "There is no service instance x in this space.")
}

// A move waits for the shared server that does not answer, and not for one if a launcher does not, or a step takes too
// long.
func TestSilenceAtTheNewPlace(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		at   store.Location
		want error
	}{
		"a shared server":      {t.Context(), store.SharedLocation("a"), task.Unreachable(io.EOF)},
		"after a timeout":      {late, store.SharedLocation("a"), io.EOF},
		"a launcher's own API": {t.Context(), store.DedicatedLocation("here", "d_1"), io.EOF},
	} {
		m := move{to: store.Instance{Location: test.at}}
		err := m.unreached(test.ctx, &task.Run{}, io.EOF)
		assert.True(t, reflect.DeepEqual(err, test.want), "%s: %#v", name, err)
	}
}

func split(s *script, escapes bool) (all []string) {
	for {
		statement, found := s.next(escapes)
		if !found {
			return all
		}
		all = append(all, statement)
	}
}

func TestSplitScript(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script string
		want   []string
	}{
		{"", nil},
		{" ;; \n", nil},
		{"SELECT 1", []string{"SELECT 1"}},
		{"\ufeffSELECT 1", []string{"SELECT 1"}},
		{"SELECT 1; SELECT 2;\n", []string{"SELECT 1", "SELECT 2"}},
		{`SELECT ';', "a\";", 'it''s;', ` + "`b;```; SELECT 2", []string{`SELECT ';', "a\";", 'it''s;', ` + "`b;```", "SELECT 2"}},
		{"SELECT 1 -- a; b\n; # c; d\nSELECT 2 /* ; */; -- the end;", []string{"SELECT 1 -- a; b", "SELECT 2 /* ; */"}},
		{"SELECT 5--1; SELECT 2", []string{"SELECT 5--1", "SELECT 2"}},
		{"/*!40101 SET @a = 1 */; /* nothing */;", []string{"/*!40101 SET @a = 1 */"}},
		{"DELIMITER //\nCREATE PROCEDURE p() BEGIN SELECT 1; END//\ndelimiter ;\nCALL p();",
			[]string{"CREATE PROCEDURE p() BEGIN SELECT 1; END", "CALL p()"}},
		{"SELECT 'open; string", []string{"SELECT 'open; string"}},
		{"SELECT 1; /* open; comment", []string{"SELECT 1"}},
		{"'DELIMITER //\n' ; SELECT 2", []string{"'DELIMITER //\n'", "SELECT 2"}},
		{"-- a\nDELIMITER //\nSELECT 1; END//", []string{"SELECT 1; END"}},
		{"--\n# a\n#b;\n  Delimiter $$ -- c\nSELECT 1; END$$", []string{"SELECT 1; END"}},
		{"/* a;\n'b */DELIMITER //\r\nSELECT 1; END//", []string{"SELECT 1; END"}},
		{"SELECT 1; -- a\nDELIMITER //\nSELECT 2; END//", []string{"SELECT 1", "SELECT 2; END"}},
		{"SELECT 1; /* a */\n\nDELIMITER //\nSELECT 2; END// DELIMITER ;\nSELECT 3;SELECT 4", []string{"SELECT 1", "SELECT 2; END",
			"SELECT 3", "SELECT 4"}},
		{"DELIMITER ';;'\nSELECT 1;2;;", []string{"SELECT 1;2"}},
		{"SELECT 1\\g SELECT ';\\g'\\G\nSELECT 2", []string{"SELECT 1", "SELECT ';\\g'", "SELECT 2"}},
		{"/*!50003 CREATE /* a; */ TRIGGER ';' */;/*M! SET @a = 1 */;", []string{"/*!50003 CREATE /* a; */ TRIGGER ';' */",
			"/*M! SET @a = 1 */"}},
		{"SELECT /*+ a';b */ 1; SELECT 2", []string{"SELECT /*+ a';b */ 1", "SELECT 2"}},
		{"SELECT `a\\`; SELECT 2--1; SELECT 3 --;\n;", []string{"SELECT `a\\`", "SELECT 2--1", "SELECT 3 --"}},
	} {
		got := split(newScript(test.script), true)
		assert.True(t, slices.Equal(got, test.want), "%q: got %q", test.script, got)
	}
	if got := split(newScript(`SELECT 'a\'; SELECT "b\"; SELECT 'c'';'`), false); !slices.Equal(got, []string{`SELECT 'a\'`,
		`SELECT "b\"`, `SELECT 'c'';'`}) {
		t.Errorf("without escapes: %q", got)
	}
	for statement, want := range map[string]string{"create table t (id int)": " (CREATE TABLE)", "SELECT 'secret'": " (SELECT)",
		"'secret'": "", "INSERT INTO secret1": " (INSERT INTO)"} {
		assert.Equal(t, want, beginning(statement), "%q begins with", statement)
	}
}
