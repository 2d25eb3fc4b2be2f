package launchertest

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/certificate"
)

// Authorities holds what a launcher under test gets as its CA. Get is for launcher.Options.Authority.
type Authorities struct {
	mu  sync.Mutex
	now certificate.Authority
}

// Set changes the CA that signs, and those that are trusted.
func (a *Authorities) Set(signing certificate.Authority, takesOver bool, trusted ...certificate.Authority) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = signing
	a.now.Trusted, a.now.TakesOver = nil, takesOver
	for _, other := range trusted {
		a.now.Trusted = append(a.now.Trusted, other.Certificate...)
	}
}

// Get returns what was set last.
func (a *Authorities) Get(context.Context) (certificate.Authority, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now, nil
}

// NewAuthority makes a CA.
func NewAuthority(t *testing.T) certificate.Authority {
	cert, key, err := certificate.NewAuthority()
	require.NoError(t, err)
	return certificate.Authority{Certificate: cert, Key: key}
}
