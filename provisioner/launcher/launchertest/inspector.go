package launchertest

import "mysql-broker/provisioner/launcher"

// Inspector examines what a launcher runs, by means of its own. Tests that audit the broker compare the result with the
// broker's records; they get it from test/testdrive: platform.go, dedicated.go. Each launcher has an Inspector next
// to its tests. Run does not need it.
type Inspector interface {
	// Inspect compares what is there with the servers that should be there, given by their ids, those of suspended servers
	// apart. It returns the endpoints of the running servers that it found, and one sentence for each difference.
	Inspect(ids []string, suspended map[string]bool) (found map[string]launcher.Endpoint, problems []string)
}
