package e2e

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// scenario is a named test of the API.
type scenario struct {
	name string
	run  func(t *testing.T, p testdrive.Platform)
}

// onceScenarios are those that do not depend on the flavour and take long.
var onceScenarios = []scenario{
	{"either password", testPreviousPassword},
	{"no dashboard", testNoDashboard},
}

// TestAPI runs every scenario on every flavour, with one broker for each flavour.
func TestAPI(t *testing.T) {
	t.Parallel()
	chosen := servers.Chosen(t, servers.AllMySQL(t))
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		env["LOG_LEVEL"] = "debug"
		env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("shared-large", "tls: optional", "tls: required"))
		env["BROKER_PASSWORD_PREVIOUS"], env["EXTERNAL_URL"] = previousPassword, "https://broker.example.com"
		p := testdrive.StartPlatform(t, server, env)
		p.Seen.Add(previousPassword)
		all := [][]scenario{platformScenarios, provisionScenarios, bindScenarios,
			asyncScenarios, dedicatedScenarios, updateScenarios, expiryScenarios, copyScenarios, tlsScenarios}
		if server == chosen[len(chosen)-1] {
			all = append(all, onceScenarios)
		}
		for _, scenarios := range all {
			for _, s := range scenarios {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					s.run(t, p)
				})
			}
		}
	})
}
