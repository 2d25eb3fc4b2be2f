// Package prometheus holds what Prometheus needs to know of the broker.
package prometheus

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAlerts has promtool check the alerts and run their unit tests, which have to see each of them fire.
func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		out, err := exec.Command("promtool", args...).CombinedOutput()
		assert.NoError(t, err, "promtool %s (of the package prometheus): %s", strings.Join(args, " "), out)
	}
	tests, err := os.ReadFile("alerts_test.yml")
	require.NoError(t, err)
	for _, a := range alerts(t) {
		fires := `ALERTS{alertname="` + a.Alert + `", alertstate="firing", severity="` + a.Labels["severity"] + `"`
		rendered := "- alertname: " + a.Alert + "\n"
		if text := string(tests); !strings.Contains(text, "labels: "+fires) && !strings.Contains(text, rendered) {
			t.Errorf("no unit test sees %s (%s) fire", a.Alert, a.Labels["severity"])
		}
	}
}

// Every alert says how severe it is, what it means and what to do.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, a := range alerts(t) {
		switch a.Labels["severity"] {
		case "critical", "warning", "info":
		default:
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		}
		for _, name := range []string{"summary", "description"} {
			assert.True(t, strings.HasSuffix(a.Annotations[name], "."),
				"%s: the %s %q is no sentence", a.Alert, name, a.Annotations[name])
		}
		assert.Equal(t, "docs/runbook.md#"+strings.ToLower(a.Alert), a.Annotations["runbook_url"], "%s: runbook_url", a.Alert)
	}
}

type alert struct {
	Alert       string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) (all []alert) {
	text, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []alert } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all, "there are no alerts")
	return all
}
