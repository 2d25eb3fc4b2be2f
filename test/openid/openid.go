// Package openid hands tests an OpenID provider, in a process of its own, and a stand-in for Cloud Controller.
package openid

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
)

// What every provider under test knows.
const (
	ClientID      = "mysql-dashboard"
	ClientSecret  = "a secret +/% of the client" // with what has to be escaped
	Password      = "verysecure"                 // of everybody
	Operator      = "olga"
	Developer     = "dora"
	Stranger      = "eve"
	OperatorGroup = "mysql-operators"
)

// Options change a provider; the zero value is an ordinary one.
type Options struct {
	Address  string // to listen on; default: any port of 127.0.0.1
	KeysAway bool   // whoever asks for the keys that tokens are signed with is answered 503
}

// Provider is a running OpenID provider.
type Provider struct {
	Issuer string // ends with /oauth/token, as UAA's does
	cmd    *exec.Cmd
	exited chan struct{}
}

// URL is where the provider listens.
func (p *Provider) URL() string { return strings.TrimSuffix(p.Issuer, "/oauth/token") }

// Address is the host and port of URL.
func (p *Provider) Address() string { return strings.TrimPrefix(p.URL(), "http://") }

// build compiles the provider once for all tests of a run.
func build(t testing.TB) string {
	return servers.Made(t, "openid-provider", func(path string) error {
		mod, err := exec.Command("go", "env", "GOMOD").Output()
		if err != nil {
			return fmt.Errorf("go env GOMOD: %w", err)
		}
		command := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".")
		command.Env = append(os.Environ(), "CGO_ENABLED=0") // also where the tests have the race detector
		command.Dir = filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "test", "openid", "provider")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// Start runs a provider until the test ends.
func Start(t testing.TB, o Options) *Provider {
	t.Helper()
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	type user struct {
		Name, Password string
		Groups         []string
	}
	input, err := json.Marshal(map[string]any{"ClientID": ClientID, "ClientSecret": ClientSecret,
		"KeysAway": o.KeysAway, "Users": []user{
			{Operator, Password, append(manyGroups(), OperatorGroup)}, {Developer, Password, manyGroups()},
			{Stranger, Password, nil}}})
	require.NoError(t, err)
	p := &Provider{cmd: exec.Command(build(t), "-listen", o.Address), exited: make(chan struct{})}
	var problems bytes.Buffer
	p.cmd.Stderr = &problems
	stdin, err1 := p.cmd.StdinPipe() // open until this process ends, and the provider with it
	stdout, err2 := p.cmd.StdoutPipe()
	require.NoError(t, errors.Join(err1, err2, p.cmd.Start()))
	t.Cleanup(p.Stop)
	line := make(chan string, 1)
	go func() {
		scanner := bufio.NewScanner(stdout)
		scanner.Scan() // it prints nothing else
		line <- scanner.Text()
		p.cmd.Wait()
		close(p.exited)
	}()
	_, err = stdin.Write(input)
	require.NoError(t, err)
	select {
	case p.Issuer = <-line:
	case <-time.After(limits.Stuck):
	}
	if p.Issuer == "" {
		p.Stop()
		t.Fatalf("the OpenID provider did not start: %s", problems.String())
	}
	return p
}

// manyGroups make a token as large as UAA's may be: more than a cookie holds.
func manyGroups() (all []string) {
	for i := range 300 {
		all = append(all, fmt.Sprintf("a-group-that-somebody-is-in-%d", i))
	}
	return all
}

// Stop ends the provider, as a crash would.
func (p *Provider) Stop() {
	p.cmd.Process.Kill()
	<-p.exited
}
