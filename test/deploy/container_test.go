package deploy

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The image is made of what the Dockerfile copies into its last stage and of nothing else, and is run as the user that it
// names. There is no Docker to do so here: the test takes the Dockerfile's instructions, and has chroot(2) for the rest.
func TestImage(t *testing.T) {
	t.Parallel()
	image := parseDockerfile(t)
	sources := buildContext(t)
	command := exec.Command("sh", "-ec", image.build)
	command.Dir, command.Env = sources, append(os.Environ(), "VERSION=1.2.3-test")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", image.build, err, out)
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range image.copies {
		copyInto(t, root, sources, c)
	}
	expectStatic(t, filepath.Join(root, image.entrypoint))

	if out, err := image.command(root, nil, "version").CombinedOutput(); err != nil ||
		!strings.HasPrefix(string(out), "mysql-broker 1.2.3-test ") {
		t.Errorf("version: %v: %s", err, out)
	}
	image.expectServes(t, root)
}

// image is what a Dockerfile says of it.
type image struct {
	build      string // shell commands of the stage that builds
	copies     []copied
	uid, gid   int
	entrypoint string
	arguments  []string
}

type copied struct{ from, to string }

var (
	copyInstruction = regexp.MustCompile(`^COPY --from=build (\S+) (\S+)$`)
	userInstruction = regexp.MustCompile(`^USER (\d+):(\d+)$`)
)

func parseDockerfile(t *testing.T) (i image) {
	t.Helper()
	building, last, found := strings.Cut(readFile(t, "deploy/container/Dockerfile"), "\nFROM scratch\n")
	if !found {
		t.Fatal("the last stage is not made from scratch")
	}
	for line := range strings.Lines(building) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "RUN "); ok && command != "go mod download" {
			i.build += command + "\n"
		}
	}
	for line := range strings.Lines(last) {
		line = strings.TrimSpace(line)
		instruction, rest, _ := strings.Cut(line, " ")
		var err error
		switch instruction {
		case "COPY":
			if m := copyInstruction.FindStringSubmatch(line); m != nil {
				i.copies = append(i.copies, copied{m[1], m[2]})
				continue
			}
			err = fmt.Errorf("it copies from somewhere else")
		case "USER":
			if m := userInstruction.FindStringSubmatch(line); m != nil {
				i.uid, _ = strconv.Atoi(m[1])
				i.gid, _ = strconv.Atoi(m[2])
			}
		case "ENTRYPOINT":
			var words []string
			if err = json.Unmarshal([]byte(rest), &words); err == nil && len(words) == 1 {
				i.entrypoint = words[0]
			}
		case "CMD":
			err = json.Unmarshal([]byte(rest), &i.arguments)
		case "", "#", "EXPOSE":
		default:
			err = fmt.Errorf("the test does not know %s", instruction)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if i.build == "" || len(i.copies) == 0 || i.uid == 0 || i.gid == 0 || i.entrypoint == "" || len(i.arguments) == 0 {
		t.Fatalf("the Dockerfile lacks something: %+v", i)
	}
	return i
}

// buildContext is a copy of the work tree, as far as .dockerignore lets it into the build.
func buildContext(t *testing.T) string {
	t.Helper()
	patterns := []string{":(exclude).dockerignore"}
	var files []string
	for line := range strings.Lines(readFile(t, ".dockerignore")) {
		line = strings.TrimSpace(line)
		if included, ok := strings.CutPrefix(line, "!"); ok {
			files = append(files, knownFiles(t, included)...)
		} else if line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, ":(exclude)"+line)
		}
	}
	files = append(files, knownFiles(t, patterns...)...)
	dir := t.TempDir()
	pack := exec.Command("tar", "-cf", "-", "-C", path(""), "--null", "--files-from=-")
	unpack := exec.Command("tar", "-xf", "-", "-C", dir)
	pack.Stdin = strings.NewReader(strings.Join(files, "\x00"))
	var err error
	if unpack.Stdin, err = pack.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	all := []*exec.Cmd{pack, unpack}
	for _, c := range all {
		c.Stderr = t.Output()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range all {
		if err := c.Wait(); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
	}
	return dir
}

// copyInto copies a file or folder of the stage that builds, whose sources are in /src.
func copyInto(t *testing.T, root, sources string, c copied) {
	t.Helper()
	from := c.from
	if inSources, ok := strings.CutPrefix(from, "/src/"); ok {
		from = filepath.Join(sources, inSources)
	}
	to := filepath.Join(root, c.to)
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		from += "/." // as Docker does, what is in a folder
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", "--dereference", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func expectStatic(t *testing.T, program string) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program is linked dynamically")
		}
	}
}

// command runs the entry point as a container would. Who is not root has a user namespace to be the image's user in.
func (i image) command(root string, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(i.entrypoint, args...)
	cmd.Path, cmd.Dir, cmd.Env = i.entrypoint, "/", env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: uint32(i.uid), Gid: uint32(i.gid)}}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Credential.NoSetGroups = true
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: i.uid, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: i.gid, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

// expectServes runs what the image runs by itself, with shared servers, and a URL of PostgreSQL that holds a certificate:
// the broker has to write that to a file.
func (i image) expectServes(t *testing.T, root string) {
	t.Helper()
	env := testdrive.Environment(t, servers.AllMySQL(t)[0])
	var shared []struct {
		CA string `json:"ca_certificate"`
	}
	if err := json.Unmarshal([]byte(env["MYSQL_SERVERS"]), &shared); err != nil {
		t.Fatal(err)
	}
	var all []string
	for name, value := range env {
		switch {
		case name == "DATABASE_URL":
			value = withCertificate(t, value, shared[0].CA)
		case name == "CATALOG" || name == "PATH" || strings.HasPrefix(name, "LAUNCHER"):
			continue // the image's own, or none
		}
		all = append(all, name+"="+value)
	}
	cmd := i.command(root, all, i.arguments...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := awaitReady(t, log)
	request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+"/v2/catalog", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(testdrive.Username, testdrive.Password)
	request.Header.Set("X-Broker-Api-Version", "2.17")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the catalog is answered %s", answer.Status)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the broker ended with %v", err)
	}
}

// withCertificate adds a CA in PEM to a URL of PostgreSQL.
func withCertificate(t *testing.T, text, ca string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil || ca == "" {
		t.Fatalf("no URL, or no certificate: %v", err)
	}
	query := u.Query()
	query.Set("sslmode", "disable") // the test's PostgreSQL has no TLS
	query.Set("sslrootcert", ca)
	u.RawQuery = query.Encode()
	return u.String()
}

// awaitReady reads a broker's log until it says where it listens, and goes on reading it.
func awaitReady(t *testing.T, log io.Reader) (address string) {
	t.Helper()
	ready, all := make(chan string, 1), &strings.Builder{}
	go func() {
		defer close(ready)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
				ready <- line.Address
				_, _ = io.Copy(io.Discard, log)
				return
			}
			fmt.Fprintln(all, lines.Text())
		}
	}()
	select {
	case address, ok := <-ready:
		if !ok {
			t.Fatalf("the broker did not become ready:\n%s", all)
		}
		return address
	case <-time.After(time.Minute):
		t.Fatal("the broker did not become ready within a minute")
	}
	return ""
}
