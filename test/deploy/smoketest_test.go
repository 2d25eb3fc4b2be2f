package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The smoke test's own test has a real broker and real servers; only cf, which needs a Cloud Foundry, is cf.sh.
func TestSmokeTest(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		b := testdrive.Start(t, testdrive.Environment(t, s))
		out, calls, err := smokeTest(t, b, nil, "mysql", "shared-small", "dedicated-small")
		assert.NoError(t, err)
		assert.Regexp(t, `(?s)shared-small works.*dedicated-small works\n$`, out)
		var want []string
		for _, plan := range []string{"shared-small", "dedicated-small"} {
			want = append(want, "create-service mysql "+plan+" NAME --wait", "create-service-key NAME smoke-test --wait",
				"service-key NAME smoke-test", "delete-service-key -f --wait NAME smoke-test", "delete-service -f --wait NAME")
		}
		assert.True(t, slices.Equal(calls, want), "cf was called as\n%s", strings.Join(calls, "\n"))
	})
}

// Whatever goes wrong, what was ordered is deleted, and the script fails.
func TestSmokeTestThatFails(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	described := testdrive.Described("shared-1", server)
	described["host"], described["port"] = "2001:db8::1", 3307 // as applications see it
	env["MYSQL_SERVERS"] = testdrive.Encode(t, []any{described})
	b := testdrive.Start(t, env)
	out, calls, err := smokeTest(t, b, []string{"THROUGH_APP=nobody"}, "mysql", "shared-small")
	assert.True(t, err != nil && strings.Contains(out, "The tunnel through nobody does not work."), "%v\n%s", err, out)
	assert.Regexp(t, `^ssh nobody --skip-remote-execution -L 127\.0\.0\.1:\d+:\[2001:db8::1\]:3307$`, calls[min(3, len(calls)-1)])
	assert.Equal(t, []string{"delete-service-key -f --wait NAME smoke-test", "delete-service -f --wait NAME"},
		calls[max(0, len(calls)-2):], "cf was called as %q\n%s", calls, out)
}

var instanceName = regexp.MustCompile(`smoke-test-[a-z-]+-\d+-\d+`)

// smokeTest runs the script, and returns what it printed and how it called cf, with NAME for that of the instance.
func smokeTest(t *testing.T, b *testdrive.Broker, env []string, args ...string) (printed string, calls []string, err error) {
	bin, tmp := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(path("test/deploy/cf.sh"), filepath.Join(bin, "cf")))
	file := filepath.Join(bin, "calls")
	script := exec.Command(path("deploy/cloudfoundry/smoke-test.sh"), args...)
	script.Env = append(append(os.Environ(), env...), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+tmp, "WAIT=120",
		"CALLS="+file, "BROKER="+testdrive.Binary(t), "BROKER_URL="+b.URL, "BROKER_USERNAME="+b.Username,
		"BROKER_PASSWORD="+b.Password,
		"MYSQL_BROKER_CLIENT_STATE="+filepath.Join(bin, "client.json"))
	out, err := script.CombinedOutput()
	left, globErr := filepath.Glob(tmp + "/*")
	assert.True(t, globErr == nil && len(left) == 0, "the script left %q, %v", left, globErr)
	text, readErr := os.ReadFile(file)
	require.NoError(t, readErr, "%v\n%s", readErr, out)
	return string(out), strings.Split(strings.TrimSpace(instanceName.ReplaceAllString(string(text), "NAME")), "\n"), err
}
