package mysqladmin

import (
	"context"
	"errors"
	"time"
)

const (
	// checkInterval is how long work on a cluster may take before its primary is checked, and the interval of the checks.
	checkInterval = time.Second
	// checkAlone is how long the primary may take to answer before the other nodes are asked as well. Any node of Galera
	// accepts writes, so that work would be given up for nothing.
	checkAlone = 2 * time.Second
)

// checks are those of the primary of a cluster.
type checks struct {
	busy   bool // one is in progress
	last   time.Time
	missed int // how many in a row found no node that accepts writes
}

// find finds the primary before the first work. If there is none, the work reports that.
func (n *nodes) find(ctx context.Context) {
	n.mu.Lock()
	found := n.found
	n.mu.Unlock()
	if found {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, silenceTimeout)
	defer cancel()
	if conn, err := n.Connect(ctx); err == nil {
		_ = conn.Close()
	}
}

// checkPrimary checks the primary, at most once in an interval for all work. If it accepts no writes any more, or does
// not answer while another node accepts writes, its open connections are not used again: a primary that is cut off from
// the others may only let statements wait, until the network connects them again. checkPrimary reports whether the
// cluster answers. It does not end with the work that it is for, which may be shorter.
func (n *nodes) checkPrimary(ctx context.Context) (answers bool) {
	n.mu.Lock()
	if n.checks.busy || time.Since(n.checks.last) < checkInterval/2 {
		defer n.mu.Unlock()
		return n.checks.missed < silences
	}
	n.checks.busy, n.checks.last = true, time.Now()
	n.mu.Unlock()
	answers = n.primaryAnswers(context.WithoutCancel(ctx))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checks.busy = false
	n.checks.missed++
	if answers {
		n.checks.missed = 0
	}
	return n.checks.missed < silences
}

// primaryAnswers reports whether the primary answers, or another node has become the primary. A donor finishes what it
// has begun, and so does one that only takes no more connections.
func (n *nodes) primaryAnswers(ctx context.Context) bool {
	primary, _ := n.state()
	limited, cancel := context.WithTimeout(ctx, checkAlone)
	defer cancel()
	conn, err := n.all[primary].connectToWrite(limited)
	switch {
	case err == nil:
		_ = conn.Close()
	case errors.Is(err, errDonor), Refused(err) && !hasNumber(err, errOfflineMode):
	case errors.Is(err, errReadOnlyNode):
		_ = n.demoted(err)
	default:
		if conn, err = n.Connect(ctx); err != nil {
			return false
		}
		_ = conn.Close()
	}
	return true
}
