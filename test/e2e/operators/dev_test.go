package operators

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/openid"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestDev does what the README says, once with each kind of plan.
func TestDev(t *testing.T) {
	t.Parallel()
	env := testdrive.DevEnvironment(t, servers.Any(t).Flavour)
	env["PORT"] = strconv.Itoa(testdrive.FreePort(t)) // the same after the restart: the client knows instances by URL
	user := terminal{testdrive.Terminal{Env: env}}
	// Ctrl-C is pressed while dev starts. What it leaves behind must not break the next start.
	early := testdrive.Launch(t, env, "dev")
	testdrive.Eventually(t, "a server is started", func() bool {
		return len(testdrive.Processes(t, env["MYSQL_BROKER_DEV_DIR"])) > 0
	})
	interrupt(t, early, env)
	awkward := maps.Clone(env)
	awkward["BROKER_PASSWORD"] = "it's $HOME; `id` & more"
	dev := testdrive.StartDev(t, awkward)
	assert.Equal(t, "http://127.0.0.1:"+env["PORT"], dev.URL, "the URL printed")
	line := dev.AwaitLog(t, "curl -s -u ") // with a password that contains characters that shells interpret
	shell := osexec.Command("sh", "-c", line)
	shell.Dir = t.TempDir()
	printed, err := shell.CombinedOutput()
	assert.True(t, err == nil && strings.Contains(string(printed), "dedicated-small"), "%s: %v: %s", line, err, printed)
	expectLinkSignsIn(t, dev)
	expectRecording(t, env)
	user.Expect(t, "dedicated-small", "catalog")
	kept := map[string]testdrive.Credentials{}
	for _, plan := range []string{"shared-small", "shared-async", "dedicated-small"} {
		kept[plan] = user.create(t, plan)
	}
	user.Expect(t, "Updated service instance my-shared-small.", "update-service", "my-shared-small", "-p", "shared-large")
	user.Expect(t, "Updated service instance my-dedicated-small.", "update-service", "my-dedicated-small",
		"-p", "dedicated-large")
	user.Run(t, "update-service", "my-shared-small", "-c", `{"backup":"now"}`) // there is an object store
	var backups []struct{ Backup string }
	out := testdrive.Run(t, env, "backups", "--json").Expect(t, 0).Stdout
	require.NoError(t, json.Unmarshal([]byte(out), &backups), "backups printed %q", out)
	require.NotEmpty(t, backups) // the broker may have taken some by itself
	user.Expect(t, "Updated service instance my-shared-small.", "update-service", "my-shared-small",
		"-c", `{"restore_backup":"`+backups[0].Backup+`","confirm":"my-shared-small"}`)
	expectOperatorsCommands(t, env)
	interrupt(t, dev, env)

	dev = testdrive.StartDev(t, env)
	for plan, c := range kept {
		assert.True(t, user.key(t, "my-"+plan) == c, "%s: the key's credentials are others after the restart", plan)
		assert.Equal(t, 7, testdrive.Read[int](t, c.Open(t), "SELECT n FROM kept"), "%s: the row reads", plan)
	}
	user.Expect(t, "shared-large", "service", "my-shared-small")
	user.Expect(t, "dedicated-large", "service", "my-dedicated-small")
	for plan, c := range kept {
		user.delete(t, plan, c)
	}
	user.Expect(t, "No service instances at http://127.0.0.1:", "services")
	interrupt(t, dev, env)
}

// expectRecording compares what the README shows of a terminal with what the commands print.
func expectRecording(t *testing.T, env map[string]string) {
	record := osexec.Command(filepath.Join(testdrive.Root(), "deploy/dev/record.sh"), testdrive.Binary(t))
	record.Env = testdrive.Environ(env)
	out, err := record.Output()
	require.NoError(t, err, "%s", out)
	assert.True(t, strings.Contains(testdrive.Shipped(t, "README.md"), "```console\n"+string(out)+"```\n"),
		"README.md does not show what deploy/dev/record.sh prints:\n%s", out)
}

// expectOperatorsCommands runs commands for operators, which find the development broker by themselves.
func expectOperatorsCommands(t *testing.T, env map[string]string) {
	for command, want := range map[string]string{"instances": "shared-large", "servers": "dev\tok\t2\t",
		"servers --dedicated": "dedicated-large", "tasks --kind bind": "succeeded", "doctor": "All is well.",
		"migrate": "The schema is at version ", "rotate-keys": "Passwords encrypted again: 0."} {
		out := testdrive.Run(t, env, strings.Fields(command)...).Expect(t, 0)
		assert.True(t, strings.Contains(out.Stdout, want) && strings.Contains(out.Stderr, "development broker"),
			"%s printed %q and %q", command, out.Stdout, out.Stderr)
	}
	file := filepath.Join(env["MYSQL_BROKER_DEV_DIR"], "environment")
	content, err := os.ReadFile(file)
	assert.True(t, err == nil && strings.Contains(string(content), "mysql://mysql_broker:"),
		"the shared server is not used as operators use theirs: %v, %s", err, content)
	out := testdrive.Run(t, env, "servers", "dev", "--json").Expect(t, 0)
	assert.False(t, strings.Contains(out.Stdout, "recommended"),
		"the shared server lacks settings that operators are told to set: %s", out.Stdout)
}

// terminal has more of what persons do with client commands.
type terminal struct{ testdrive.Terminal }

// create makes an instance my-PLAN with a key, and writes a row with the key's credentials.
func (u terminal) create(t *testing.T, plan string) testdrive.Credentials {
	name := "my-" + plan
	u.Expect(t, "Created service instance "+name+".", "create-service", plan, name, "-c", `{"charset":"utf8mb4"}`)
	u.Expect(t, "mysql://", "create-service-key", name, "key", "-c", `{"role":"admin"}`)
	c := u.key(t, name)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")
	return c
}

func (u terminal) key(t *testing.T, name string) testdrive.Credentials {
	var binding struct{ Credentials testdrive.Credentials }
	u.Read(t, &binding, "service-key", name, "key")
	return binding.Credentials
}

func (u terminal) delete(t *testing.T, plan string, c testdrive.Credentials) {
	name := "my-" + plan
	u.Expect(t, "Deleted key key of service instance "+name+".", "delete-service-key", name, "key")
	testdrive.ExpectRefused(t, c.Fields(t))
	u.Expect(t, "Deleted service instance "+name+".", "delete-service", name)
}

// interrupt presses Ctrl-C and checks that nothing runs on.
func interrupt(t *testing.T, dev *testdrive.Broker, env map[string]string) {
	dev.Signal(t, syscall.SIGINT)
	assert.Equal(t, 0, dev.Wait(t), "dev ended with")
	testdrive.ExpectNoProcess(t, env["MYSQL_BROKER_DEV_DIR"])
}

// expectLinkSignsIn opens the link that a broker on one's own machine prints.
func expectLinkSignsIn(t *testing.T, dev *testdrive.Broker) {
	link := strings.TrimSpace(dev.AwaitLog(t, "/dashboard/sign-in/link?token="))
	require.True(t, strings.HasPrefix(link, dev.URL), "the link is %q", link)
	b := openid.NewBrowser(t)
	b.Until("/dashboard/")
	p := b.Open(t, link)
	assert.Equal(t, http.StatusSeeOther, p.Status, "the link was answered %d: %s", p.Status, p.Text)
	b.Open(t, dev.URL+"/dashboard/sign-in/").Expect(t, http.StatusOK, "As an operator you see all")
	b.Open(t, link).Expect(t, http.StatusForbidden, "This link is not valid, or no longer.")
}
