package e2e

import (
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// platform is what a scenario works with: a broker, and the shared server behind it. Scenarios run at the same time
// on one broker and must use instance ids of their own.
type platform struct {
	*testdrive.Broker
	server      servers.MySQL
	launcherDir string // of its dedicated servers
	seen        *secrets
}

// scenario is a named test of the API.
type scenario struct {
	name string
	run  func(t *testing.T, p platform)
}

// TestAPI runs every scenario on every flavour, with one broker for each flavour.
func TestAPI(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		env["LOG_LEVEL"], env["LAUNCHER_SPARES"] = "debug", "2"
		p := startPlatform(t, server, env)
		for _, scenarios := range [][]scenario{platformScenarios, provisionScenarios, bindScenarios,
			unbindScenarios, deprovisionScenarios, asyncScenarios, dedicatedScenarios, updateScenarios,
			isolationScenarios, expiryScenarios} {
			for _, s := range scenarios {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					s.run(t, p)
				})
			}
		}
	})
}

// startPlatform starts a broker. Once that has stopped, neither its log nor its responses may hold any of its secrets.
func startPlatform(t *testing.T, server servers.MySQL, env map[string]string) platform {
	t.Helper()
	return startPlatformBy(t, testdrive.Start, server, env)
}

func startPlatformBy(t *testing.T, start func(testing.TB, map[string]string) *testdrive.Broker, server servers.MySQL,
	env map[string]string) platform {
	t.Helper()
	seen := &secrets{}
	seen.add(env["BROKER_PASSWORD"], env["ENCRYPTION_KEYSET"], server.Password, server.BrokerPassword)
	p := platform{server: server, launcherDir: env["LAUNCHER_DIR"], seen: seen}
	t.Cleanup(func() { // before start, so that it runs once the broker has stopped
		if p.Broker == nil { // it did not start
			return
		}
		seen.check(t, "the log", p.Log())
		seen.checkAnswers(t)
	})
	p.Broker = start(t, env)
	p.Username, p.Password, p.OnAnswer = env["BROKER_USERNAME"], env["BROKER_PASSWORD"], seen.heard
	return p
}

// eachPlatform runs a test with a broker on each flavour, in parallel. env is the broker's environment.
func eachPlatform(t *testing.T, run func(t *testing.T, p platform, env map[string]string)) {
	t.Helper()
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		run(t, startPlatform(t, server, env), env)
	})
}

// onePlatform is eachPlatform for what does not depend on the flavour.
func onePlatform(t *testing.T, run func(t *testing.T, p platform, env map[string]string)) {
	t.Helper()
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		run(t, startPlatform(t, server, env), env)
	})
}

// eachPrivatePlatform is eachPlatform with shared servers that no other test uses.
func eachPrivatePlatform(t *testing.T, run func(t *testing.T, p platform, env map[string]string)) {
	t.Helper()
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		private := testdrive.Private(t, server.Flavour)
		env := testdrive.Environment(t, private)
		run(t, startPlatform(t, private, env), env)
	})
}
