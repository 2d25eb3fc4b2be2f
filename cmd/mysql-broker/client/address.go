package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const defaultURL = "http://127.0.0.1:8080"

// address is the URL and login of a broker. It is also the content of client.json, which "mysql-broker dev" writes to
// its directory.
type address struct {
	URL      string `json:"url"`
	Username string `json:"username"`
	Password string `json:"password"`
	Names    string `json:"names,omitempty"` // the file of names; "" for the user's own
}

// address returns the values of flags and environment. Missing values come from the running development broker. But its
// password is never sent to another URL, and another password is sent to its URL only if the user gives that URL,
// because anybody may have written a file in the working directory.
func (o *options) address() (address, error) {
	a := address{
		URL:      strings.TrimRight(cmp.Or(o.url, o.getenv("BROKER_URL")), "/"),
		Username: cmp.Or(o.username, o.getenv("BROKER_USERNAME")),
		Password: o.getenv("BROKER_PASSWORD"),
	}
	if a.URL != "" && a.Username != "" && a.Password != "" {
		return a, nil
	}
	file := filepath.Join(cmp.Or(o.getenv("MYSQL_BROKER_DEV_DIR"), ".dev"), "client.json")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		a.URL = cmp.Or(a.URL, defaultURL)
		return a, nil
	}
	if err != nil {
		return address{}, err
	}
	var dev address
	if err := json.Unmarshal(data, &dev); err != nil {
		return address{}, fmt.Errorf("%s: %w", file, err)
	}
	dev.URL = strings.TrimRight(dev.URL, "/")
	if a.URL == "" && a.Password == "" {
		a.URL = dev.URL
	}
	a.URL = cmp.Or(a.URL, defaultURL)
	if a.URL == dev.URL {
		a.Username = cmp.Or(a.Username, dev.Username)
		a.Password = cmp.Or(a.Password, dev.Password)
		a.Names = dev.Names
	}
	return a, nil
}
