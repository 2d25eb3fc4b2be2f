package kubernetes_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/test/kubernetes/cluster"
)

// A group that two brokers look after accepts writes again after one or all of its members are cut off, and after all
// pods are deleted. If one has lost its data while no other runs, the group waits for an operator.
func TestGroupOutage(t *testing.T) { onNodes(t, testGroupOutage) }

func testGroupOutage(t *testing.T, image kubernetes.Image, node *cluster.Node) {
	g := newGroup(t, image, node)
	g.p.open(t)
	cut := func(member int, off bool) {
		t.Helper()
		if err := node.Cut(g.p.Name, g.pod(member), off); err != nil {
			t.Fatal(err)
		}
	}
	g.write()
	g.during("the primary is cut off", func(primary int) {
		cut(primary, true)
		await(t, "another member is the primary", func() bool { return g.primary() != primary })
		cut(primary, false)
	})
	g.during("all are cut off", func(int) {
		for member := range 3 {
			cut(member, true)
		}
		await(t, "no member is online", func() bool { return g.online() == 0 })
		for member := range 3 {
			cut(member, false)
		}
	})
	g.during("all pods are deleted", func(int) {
		for member := range 3 {
			g.deletePod(member)
		}
	}, 0, 1, 2)
	g.stop()
	g.waitsForOperator()
	g.destroy()
}

// waitsForOperator has a member lose its data as all are killed, and begins the group with another one.
func (g *groupClient) waitsForOperator() {
	g.t.Helper()
	lost := g.primary()
	g.p.Do(g.t, http.MethodDelete, g.p.Path("persistentvolumeclaims/"+strings.TrimSuffix(g.pod(lost), "-0")), nil, nil)
	for member := range 3 {
		g.kill(member)
	}
	g.deletePod(lost)
	await(g.t, "the launcher logs that it cannot decide", func() bool {
		return strings.Contains(g.p.log.String(), "one has lost its data")
	})
	if n := g.online(); n > 0 {
		g.t.Errorf("%d members are online", n)
	}
	g.admin(g.e.Members[(lost+1)%3], func(ctx context.Context, db *sql.DB) error {
		for _, statement := range []string{"SET GLOBAL group_replication_bootstrap_group=ON", "START GROUP_REPLICATION",
			"SET GLOBAL group_replication_bootstrap_group=OFF"} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
	g.whole("an operator has begun the group")
	g.compare("an operator has begun the group")
}

func (g *groupClient) online() (n int) {
	g.t.Helper()
	for _, m := range g.members() {
		if m.State == launcher.MemberOnline {
			n++
		}
	}
	return n
}
