package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"mysql-broker/provisioner/launcher/process/files"
)

// instance is a service instance, as the client stores it.
type instance struct {
	GUID      string          `json:"guid"`
	Plan      plan            `json:"plan"`
	NextPlan  *plan           `json:"next_plan,omitempty"` // the plan after the running update
	Dashboard string          `json:"dashboard_url,omitempty"`
	Last      operation       `json:"last_operation"`
	Keys      map[string]*key `json:"keys,omitempty"`
}

// key is a binding without an app.
type key struct {
	GUID string    `json:"guid"`
	Last operation `json:"last_operation"`
}

// inventory is the file of names, which only its owner can read: the instances by name, for each broker's URL.
type inventory struct {
	file   string
	url    string
	locked bool
}

func inventoryFile(getenv func(string) string, a address) (string, error) {
	if file := cmp.Or(getenv("MYSQL_BROKER_CLIENT_STATE"), a.Names); file != "" {
		return file, nil
	}
	dir := getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("set MYSQL_BROKER_CLIENT_STATE: %w", err)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "mysql-broker", "client.json"), nil
}

func (i *inventory) all() (map[string]*instance, error) {
	brokers, err := i.read()
	return brokers[i.url], err
}

// instance returns the instance of that name; it fails if there is none.
func (i *inventory) instance(name string) (*instance, error) {
	all, err := i.all()
	if err != nil {
		return nil, err
	}
	if all[name] == nil {
		return nil, fmt.Errorf("there is no service instance %s", name)
	}
	return all[name], nil
}

// key returns the instance and its key of these names; it fails if there is none.
func (i *inventory) key(name, keyName string) (*instance, *key, error) {
	in, err := i.instance(name)
	if err != nil {
		return nil, nil, err
	}
	if in.Keys[keyName] == nil {
		return nil, nil, fmt.Errorf("service instance %s has no key %s", name, keyName)
	}
	return in, in.Keys[keyName], nil
}

// operation is the last one of the instance or key at a path of the broker's API, nil if there is none.
func (i *inventory) operation(path string) (*operation, error) {
	all, err := i.all()
	for _, in := range all {
		if in.path() == path {
			return &in.Last, nil
		}
		for _, k := range in.Keys {
			if k.path(in) == path {
				return &k.Last, nil
			}
		}
	}
	return nil, err
}

// put stores the instance, but not its keys.
func (i *inventory) put(name string, in *instance) error {
	return i.change(func(all map[string]*instance) {
		if old := all[name]; old != nil {
			in.Keys = old.Keys
		}
		all[name] = in
	})
}

func (i *inventory) remove(name string) error {
	return i.change(func(all map[string]*instance) { delete(all, name) })
}

func (i *inventory) putKey(name, keyName string, k *key) error {
	return i.change(func(all map[string]*instance) {
		in := all[name]
		if in == nil { // deleted meanwhile
			return
		}
		if in.Keys == nil {
			in.Keys = map[string]*key{}
		}
		in.Keys[keyName] = k
	})
}

func (i *inventory) removeKey(name, keyName string) error {
	return i.change(func(all map[string]*instance) {
		if in := all[name]; in != nil {
			delete(in.Keys, keyName)
		}
	})
}

// change changes the broker's instances.
func (i *inventory) change(alter func(map[string]*instance)) error {
	return i.lock(func() error {
		brokers, err := i.read()
		if err != nil {
			return err
		}
		if brokers[i.url] == nil {
			brokers[i.url] = map[string]*instance{}
		}
		alter(brokers[i.url])
		return i.write(brokers)
	})
}

// lock keeps other clients from changing the file meanwhile.
func (i *inventory) lock(do func() error) error {
	if i.locked {
		return do()
	}
	if err := os.MkdirAll(filepath.Dir(i.file), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(i.file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	i.locked = true
	defer func() { i.locked = false }()
	return do()
}

func (i *inventory) read() (map[string]map[string]*instance, error) {
	brokers := map[string]map[string]*instance{}
	data, err := os.ReadFile(i.file)
	if errors.Is(err, fs.ErrNotExist) {
		return brokers, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &brokers); err != nil {
		return nil, fmt.Errorf("%s: %w", i.file, err)
	}
	return brokers, nil
}

func (i *inventory) write(brokers map[string]map[string]*instance) error {
	data, err := json.MarshalIndent(brokers, "", "  ")
	if err != nil {
		return err
	}
	return files.Replace(i.file, data, 0o600)
}
