package launchertest

import "mysql-broker/provisioner/launcher"

// Inspector examines what a launcher runs, by means of its own. Tests compare the result with the broker's records.
// Each launcher has an Inspector next to its tests.
type Inspector interface {
	// Inspect compares what is there with the servers that should be there, given by their ids. It returns the endpoints
	// of the servers that it found, and one sentence for each difference.
	Inspect(ids []string) (found map[string]launcher.Endpoint, problems []string)
}
