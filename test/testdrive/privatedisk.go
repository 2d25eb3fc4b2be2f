package testdrive

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/test/servers"
)

// launchVariable has the privateLaunch of a process that PrivateOnDisk starts.
const launchVariable = "TESTDRIVE_LAUNCH"

type privateLaunch struct {
	Config  map[string]string
	Flavour string
}

// PrivateOnDisk is Private for a server with a disk of its own of some MiB. The package's TestMain has to call
// LaunchOnDisk.
func PrivateOnDisk(t testing.TB, flavour string, mebibytes int) (servers.MySQL, *Disk) {
	t.Helper()
	dir := launcherDirWithTemplates(t, flavour)
	templates, err := os.Readlink(filepath.Join(dir, templatesName))
	if err != nil {
		t.Fatal(err)
	}
	disk := MountDisk(t, dir, mebibytes)
	if err := os.Symlink(templates, disk.Path(templatesName)); err != nil {
		t.Fatal(err)
	}
	launch, err := json.Marshal(privateLaunch{privateConfig(t, dir, flavour), flavour})
	if err != nil {
		t.Fatal(err)
	}
	enter := disk.enter()
	cmd := exec.Command(enter[0], append(enter[1:], os.Args[0])...)
	cmd.Env, cmd.Stderr = append(os.Environ(), launchVariable+"="+string(launch)), t.Output()
	answer, err := cmd.Output()
	if err != nil {
		t.Fatalf("start a private server on a disk of its own: %v", err)
	}
	var e launcher.Endpoint
	if err := json.Unmarshal(answer, &e); err != nil {
		t.Fatal(err)
	}
	return private(t, flavour, e), disk
}

// LaunchOnDisk starts the server in a process that PrivateOnDisk has started, and ends it. It does nothing in others.
func LaunchOnDisk() {
	text := os.Getenv(launchVariable)
	if text == "" {
		return
	}
	if err := launchOnDisk(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func launchOnDisk(text string) error {
	var of privateLaunch
	if err := json.Unmarshal([]byte(text), &of); err != nil {
		return err
	}
	_, e, err := launchPrivate(context.Background(), of.Config, of.Flavour, false)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(e)
}

// enter is how a command begins that is to see the disk.
func (d *Disk) enter() []string {
	enter := []string{"nsenter", "--target", strconv.Itoa(d.owner.Process.Pid), "--mount"}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		enter = append(enter, "--user", "--preserve-credentials", "unshare", "--user",
			"--map-user="+strconv.Itoa(uid), "--map-group="+strconv.Itoa(gid)) // themselves again
	}
	return enter
}
