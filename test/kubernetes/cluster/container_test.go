package cluster

import (
	"os"
	"strings"
	"testing"
)

// A container sees the host's programs, its volumes and nothing else that it could write to, as the user that it asks
// for.
func TestContainer(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("containers need root")
	}
	volume := t.TempDir()
	if err := os.Chmod(volume, 0o777); err != nil {
		t.Fatal(err)
	}
	const script = `id -u; id -G; echo "$$"; echo yes >/data/file; ls /data
		touch /etc/x /x /tmp/x 2>/dev/null || echo read-only; ip -o addr | wc -l; env | sort`
	dir := t.TempDir()
	c, err := startContainer(containerConfig{Dir: dir, Path: "/usr/sbin:/usr/bin:/bin", User: 999, Group: 999,
		ExtraGroup: 998, Command: []string{"/bin/sh", "-c", script}, Mounts: map[string]string{"/data": volume}})
	if err != nil {
		t.Fatal(err)
	}
	code := c.wait(t.Context(), nil)
	printed, err := os.ReadFile(c.log)
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 {
		t.Errorf("it ended with %d", code)
	}
	want := "999\n999 998\n1\nfile\nread-only\n2\nHOME=/\nPATH=/usr/sbin:/usr/bin:/bin\nPWD=/\n"
	if got := strings.TrimSuffix(string(printed), "_=/usr/bin/env\n"); got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
}
