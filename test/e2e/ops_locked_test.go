package e2e

import (
	"context"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Requests that wait for another one in vain are told so, and not that PostgreSQL were away.
func TestLockedInstance(t *testing.T) {
	t.Parallel()
	server := servers.AllMySQL(t)[0]
	env := testdrive.Environment(t, server)
	i := startPlatform(t, server, env).provisioned(t, "shared-small", nil)
	b, _ := i.bound(t, nil)
	holder, err := pgx.Connect(t.Context(), env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM instance WHERE id = $1 FOR UPDATE", i.id); err != nil {
		t.Fatal(err)
	}
	other := i.newBinding()
	for _, answer := range []<-chan testdrive.Response{
		i.Begin("PUT", other.path(), other.with(nil)),
		i.Begin("DELETE", b.deletion(b.path(), now), nil),
		i.Begin("DELETE", i.deletion(i.path(), now), nil),
	} {
		r := <-answer
		expectRefusal(t, r, http.StatusUnprocessableEntity, "in progress")
		if r.String("error") != "ConcurrencyError" {
			t.Errorf("error code: %s", r.Raw)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectEmpty(t, b.unbind(t), http.StatusOK)
	i.remove(t)
}
