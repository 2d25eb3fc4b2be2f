package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher"
)

// choosePort chooses and records the port of a server that is being launched: the lowest port that no other server has
// and nobody listens on. The server keeps its present port if that is free and not the one to avoid.
func (l *Launcher) choosePort(ctx context.Context, sd serverDir, st *state, avoid int) error {
	unlock, err := lockDir(ctx, l.run.place.serversDir())
	if err != nil {
		return err
	}
	defer unlock()
	cfg := l.run.cfg
	taken, err := l.run.place.ports(sd.id, cfg.Logger)
	if err != nil {
		return err
	}
	for i := range cfg.PortMax - cfg.PortMin + 2 {
		port := cfg.PortMin + i - 1
		if i == 0 {
			port = st.Port
		}
		if port == 0 || port == avoid || taken[port] {
			continue
		}
		free, err := portFree(cfg.BindAddress, port)
		if err != nil {
			return fmt.Errorf("server %s: check that its port is free: %w", sd.id, err)
		}
		if free {
			st.Port = port
			return sd.saveState(*st)
		}
	}
	return fmt.Errorf("server %s: %w: no port from %d to %d is free", sd.id, launcher.ErrNoRoom, cfg.PortMin,
		cfg.PortMax)
}

// ports returns the recorded ports of all servers except one, whether or not they run.
func (p place) ports(except string, log *slog.Logger) (map[int]bool, error) {
	all, err := p.servers()
	if err != nil {
		return nil, err
	}
	ports := map[int]bool{}
	for _, other := range all {
		if other.id == except {
			continue
		}
		st, err := other.loadState()
		if errors.Is(err, launcher.ErrNotFound) {
			continue
		}
		if err != nil { // its port is unknown, but found in use while it runs
			log.Error("could not read the state of a server", "server", other.id, "error", err)
			continue
		}
		ports[st.Port] = true
	}
	return ports, nil
}

// portFree returns an error if no port can be used, for example at an address that the host does not have.
func portFree(address string, port int) (bool, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, fs.ErrPermission) { // below 1024, if not root
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, ln.Close()
}
