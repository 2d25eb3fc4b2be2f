// Package grafana holds the dashboard for Grafana.
package grafana

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dashboard is what Grafana's model has that can go wrong without an error message.
// https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Datasource  struct{ UID string }
	Targets     []struct {
		RefID      string
		Expr       string
		Datasource struct{ UID string }
	}
}

// Panels do not overlap, have different ids, say what they show, and query the chosen Prometheus.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("mysql-broker.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		other := ids[p.ID]
		assert.True(t, p.ID != 0 && other == "", "%s: id %d is %q's", p.Title, p.ID, other)
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Errorf("%s lies over %q, or beside the grid", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" {
			p.check(t)
		}
	}
	for _, v := range d.Templating.List {
		assert.False(t, !strings.Contains(string(text), "$"+v.Name) && !strings.Contains(string(text), "${"+v.Name+"}"),
			"the variable %s is not used", v.Name)
	}
}

// What has an alert is on the dashboard.
func TestDashboardShowsWhatAlertsAreAbout(t *testing.T) {
	t.Parallel()
	shown, err := os.ReadFile("mysql-broker.json")
	require.NoError(t, err)
	alerts, err := os.ReadFile("../prometheus/alerts.yml")
	require.NoError(t, err)
	for _, name := range regexp.MustCompile(`mysql_broker_\w+`).FindAllString(string(alerts), -1) {
		assert.True(t, strings.Contains(string(shown), name+"{"), "the dashboard lacks %s", name)
	}
}

func (p panel) check(t *testing.T) {
	assert.False(t, p.Title == "" || !strings.HasSuffix(p.Description, ".") || len(p.Targets) == 0,
		"panel %d %q has no title, no sentence that describes it, or nothing to show", p.ID, p.Title)
	refs := map[string]bool{}
	for _, target := range p.Targets {
		assert.False(t, refs[target.RefID] || target.RefID == "", "%s: two queries are called %q", p.Title, target.RefID)
		refs[target.RefID] = true
		assert.True(t, p.Datasource.UID == "${datasource}" && target.Datasource.UID == "${datasource}",
			"%s asks another data source than the chosen one", p.Title)
		assert.Contains(t, target.Expr, `job=~"$job"`, "%s shows other jobs than the chosen one", p.Title)
	}
}
