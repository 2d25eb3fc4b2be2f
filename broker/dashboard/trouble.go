package dashboard

import (
	"context"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/store"
)

// noAnswer is the sentence about a server that does not respond, if nobody knows why.
const noAnswer = "The MySQL server did not answer within some seconds, so that its figures are missing here. " +
	"Load the page again in a minute; if they are still missing, tell your operator."

// troubles are the sentences about a dedicated server whose launcher sees why it does not respond.
var troubles = map[launcher.Trouble]string{
	launcher.NodeLost: "The machine that runs the MySQL server does not respond. An operator has to confirm that it is " +
		"off before the server starts on another one: tell your operator.",
	launcher.Evicted: "The MySQL server has to leave its machine, and starts again on another one. Load the page again " +
		"in a minute.",
	launcher.OutOfMemory: "The MySQL server was ended because it used more memory than its plan has, and it starts " +
		"again. If that happens often, update the instance to a larger plan.",
	launcher.VolumeFull: "The disk of the MySQL server is full, so it ended or hangs. Delete data once it runs again, " +
		"or update the service instance to a plan with more storage.",
	launcher.Crashing: "The MySQL server ends soon after each start. Tell your operator.",
	launcher.NotReady: "The MySQL server has been starting for minutes: it repairs its data after a crash, or waits for " +
		"room on its disk. If that lasts, tell your operator.",
	launcher.NoImage: "The program of the MySQL server cannot be fetched, so it does not start. Tell your operator.",
	launcher.NoNode: "No machine has room for the MySQL server just now. It starts when there is room; if that lasts, " +
		"tell your operator.",
	launcher.NoPod: "The MySQL server is not being run, because something outside of the broker has stopped it. Tell " +
		"your operator.",
}

// silence returns the sentence about a server that did not respond.
func (d *Dashboard) silence(ctx context.Context, i store.Instance) string {
	ctx, cancel := context.WithTimeout(ctx, d.AnswerTime)
	defer cancel()
	trouble, err := d.Fleet.Trouble(ctx, i.Location)
	if err != nil {
		d.Logger.Warn("dashboard: could not find out why a server does not respond", "instance_id", i.ID, "error", err)
	}
	if sentence, known := troubles[trouble]; known {
		return sentence
	}
	return noAnswer
}
