package launchertest

import "mysql-broker/provisioner/launcher"

// Inspector looks at what a launcher runs with means of its own, for tests that compare it with the broker's records.
// Each launcher has one beside its tests.
type Inspector interface {
	// Inspect returns a sentence for each difference between what there is and the servers that are to be there and
	// nothing else, by their ids, and where those of them are that it found.
	Inspect(ids []string) (found map[string]launcher.Endpoint, problems []string)
}
