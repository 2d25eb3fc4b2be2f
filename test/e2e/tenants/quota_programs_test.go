package tenants

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Stored programs and views are in no table's file, but count towards the quota. An instance that has filled its quota
// with them can create no more, and may write again after removing them. A larger plan lifts the restriction at once.
func TestQuotaOfPrograms(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	p := testdrive.StartPlatform(t, private, testdrive.QuotaEnvironment(t, private))
	i := p.MakeOwn(t, "shared-small")
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Fill(t, db, 1)
	testdrive.Exec(t, db, "CREATE TRIGGER tr BEFORE DELETE ON filler FOR EACH ROW SET @x = 1")
	const programMB = 3 // less than max_allowed_packet
	text := strings.Repeat("x", programMB<<20)
	made := 0
	program := func() uint16 {
		made++
		return testdrive.RefusalOf(t, db, fmt.Sprintf("CREATE PROCEDURE p%d() SELECT '%s'", made, text))
	}
	last := uint16(0)
	t.Cleanup(func() { t.Logf("after %d procedures: error %d", made, last) })
	testdrive.Eventually(t, testdrive.QuotaTime, "no more procedure can be made", func() bool {
		program()
		last = testdrive.RefusalOf(t, db, "CREATE PROCEDURE small() SELECT 1")
		_ = testdrive.ErrorOf(t, db, "DROP PROCEDURE IF EXISTS small") // the session may be ended just then
		return last == testdrive.DeniedInAll
	})
	t.Logf("refused after %d procedures of %d MiB", made, programMB)
	for _, statement := range []string{testdrive.InsertOne, "DROP TRIGGER tr",
		"CREATE TRIGGER tr2 BEFORE INSERT ON filler FOR EACH ROW SET @x = 1"} {
		if number := testdrive.RefusalOf(t, db, statement); number != testdrive.Denied {
			t.Errorf("%.60s: error %d, want %d", statement, number, testdrive.Denied)
		}
	}
	expectOver(t, i, true)
	for n := range made {
		testdrive.Exec(t, db, fmt.Sprintf("DROP PROCEDURE IF EXISTS p%d", n))
	}
	testdrive.AwaitAllowed(t, db)

	testdrive.Overfill(t, db, testdrive.QuotaSmall)
	awaitReconciled(t, p)
	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
	if number := testdrive.RefusalOf(t, c.Open(t), testdrive.InsertOne); number != 0 {
		t.Errorf("after the plan was changed to a larger one, error %d", number)
	}
	expectOver(t, i, false)
}
