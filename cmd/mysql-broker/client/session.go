package client

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mysql-broker/visible"
)

// options are the values of the command line and the environment.
type options struct {
	getenv     func(string) string
	url        string
	username   string
	json       bool
	plan       string
	parameters string
}

// session is the run of a command.
type session struct {
	broker     *broker
	inventory  *inventory
	out        io.Writer
	progress   *progress
	json       bool
	plan       string
	parameters json.RawMessage // an object, or nil
}

func (o *options) session(cmd *cobra.Command) (*session, error) {
	var parameters json.RawMessage
	if o.parameters != "" {
		var object map[string]any
		if err := json.Unmarshal([]byte(o.parameters), &object); err != nil || object == nil {
			return nil, fmt.Errorf("the parameters are not a JSON object: %s", o.parameters)
		}
		parameters = json.RawMessage(o.parameters)
	}
	address, err := o.address()
	if err != nil {
		return nil, err
	}
	file, err := inventoryFile(o.getenv, address)
	if err != nil {
		return nil, err
	}
	return &session{
		broker:     newBroker(address),
		inventory:  &inventory{file: file, url: address.URL},
		out:        visible.Writer(cmd.OutOrStdout()),
		progress:   &progress{out: cmd.ErrOrStderr()},
		json:       o.json,
		plan:       o.plan,
		parameters: parameters,
	}, nil
}
