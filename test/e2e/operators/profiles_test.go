package operators

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"mysql-broker/test/testdrive"
)

// Profiles are served only at PPROF_ADDRESS, never beside the API, which is served only at ADDRESS.
func TestProfiles(t *testing.T) {
	t.Parallel()
	env := testdrive.AnyEnvironment(t)
	const path = "/debug/pprof/"
	delete(env, "PORT")
	env["ADDRESS"], env["PPROF_ADDRESS"] = "127.0.0.1:0", "127.0.0.1:0"
	with := testdrive.Start(t, env)
	if conn, err := net.Dial("tcp", "127.0.0.2:"+with.URL[strings.LastIndex(with.URL, ":")+1:]); err == nil {
		conn.Close()
		t.Error("the broker listens on another address too")
	}
	with.Do(t, "GET", path, nil).Expect(t, http.StatusNotFound)
	_, url, found := strings.Cut(with.AwaitLog(t, `"msg":"profiles"`), `"url":"`)
	if !found {
		t.Fatal("the log does not tell the URL")
	}
	url, _, _ = strings.Cut(url, `"`)
	for page, want := range map[string]string{"": "goroutine", "goroutine?debug=1": "goroutine profile: total ",
		"heap?debug=1": "heap profile: ", "profile?seconds=1": ""} {
		answer, err := http.Get(url + page)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(content), want) {
			t.Errorf("%s: status %d, %d bytes, %v", page, answer.StatusCode, len(content), err)
		}
	}

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	env["PPROF_ADDRESS"] = "127.0.0.1:" + strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	out := testdrive.Run(t, env, "serve").Expect(t, 1)
	if !strings.Contains(out.Stderr, "PPROF_ADDRESS: cannot listen on "+env["PPROF_ADDRESS"]) {
		t.Errorf("an address that is taken: %s", out.Stderr)
	}
}
