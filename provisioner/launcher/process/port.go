package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher"
)

// choosePort chooses and records the port of a server that is being launched: the lowest port that no other server has
// and nobody listens on. The server keeps its present port if that is free and not the one to avoid.
func (l *Launcher) choosePort(ctx context.Context, sd serverDir, st *state, avoid int) error {
	return l.recordPort(ctx, sd, st, &st.Port, l.cfg.BindAddress, avoid)
}

// chooseProtocolPort is choosePort for the port of a member that is for the protocol of its group. On that, a member
// of Group Replication listens at every address, and refuses whoever does not come from this host.
func (l *Launcher) chooseProtocolPort(ctx context.Context, sd serverDir, st *state) error {
	return l.recordPort(ctx, sd, st, &st.ProtocolPort, "", 0)
}

// chooseTransferPort is choosePort for the port of a member of Galera at which it gets what it has missed.
func (l *Launcher) chooseTransferPort(ctx context.Context, sd serverDir, st *state) error {
	if !st.inGalera() {
		return nil
	}
	return l.recordPort(ctx, sd, st, &st.TransferPort, "127.0.0.1", 0)
}

// recordPort chooses a port on which a server can listen at an address, puts it into chosen, which is part of st, and
// records st.
func (l *Launcher) recordPort(ctx context.Context, sd serverDir, st *state, chosen *int, address string,
	avoid int) error {
	unlock, err := lockDir(ctx, l.serversDir())
	if err != nil {
		return err
	}
	defer unlock()
	taken, err := l.recordedPorts(sd)
	if err != nil {
		return err
	}
	var others []int // of this server
	for _, own := range []*int{&st.Port, &st.ProtocolPort, &st.TransferPort} {
		if own != chosen {
			others = append(others, *own)
		}
	}
	for _, port := range append([]int{*chosen}, l.portRange()...) {
		if port == 0 || port == avoid || taken[port] || slices.Contains(others, port) {
			continue
		}
		free, err := portFree(address, port)
		if err != nil {
			return fmt.Errorf("server %s: check that its port is free: %w", sd.id, err)
		}
		if free {
			*chosen = port
			return sd.saveState(*st)
		}
	}
	return fmt.Errorf("server %s: %w: no port from %d to %d is free", sd.id, launcher.ErrNoRoom, l.cfg.PortMin,
		l.cfg.PortMax)
}

func (l *Launcher) portRange() []int {
	ports := make([]int, 0, l.cfg.PortMax-l.cfg.PortMin+1)
	for port := l.cfg.PortMin; port <= l.cfg.PortMax; port++ {
		ports = append(ports, port)
	}
	return ports
}

// recordedPorts returns the recorded ports of all servers except one, whether or not they run. The ports of a group are
// also recorded with the group itself, because a member's files may be lost.
func (l *Launcher) recordedPorts(except serverDir) (map[int]bool, error) {
	launched, err := l.launchedDirs()
	if err != nil {
		return nil, err
	}
	all, err := l.serverDirs()
	if err != nil {
		return nil, err
	}
	for _, sd := range launched {
		if sd.isGroup() {
			all = append(all, sd)
		}
	}
	ports := map[int]bool{}
	for _, other := range all {
		if other.id == except.id || other.id == except.launchedID() {
			continue
		}
		st, err := other.loadState()
		if errors.Is(err, launcher.ErrNotFound) {
			continue
		}
		if err != nil { // its port is unknown, but found in use while it runs
			l.cfg.Logger.Error("the state of a server cannot be read", "server", other.id, "error", err)
			continue
		}
		ports[st.Port], ports[st.ProtocolPort], ports[st.TransferPort] = true, true, true
		if st.Group != nil && other.id == other.launchedID() {
			for _, port := range slices.Concat(st.Group.Ports, st.Group.ProtocolPorts) {
				ports[port] = true
			}
		}
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
