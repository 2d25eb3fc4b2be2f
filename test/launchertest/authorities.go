package launchertest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/certificate"
)

// Authorities holds what a launcher under test gets as its CA. Get is for launcher.Options.Authority.
type Authorities struct {
	now atomic.Pointer[certificate.Authority]
}

// Set changes the CA that signs, and those that are trusted.
func (a *Authorities) Set(signing certificate.Authority, takesOver bool, trusted ...certificate.Authority) {
	signing.Trusted, signing.TakesOver = nil, takesOver
	for _, other := range trusted {
		signing.Trusted = append(signing.Trusted, other.Certificate...)
	}
	a.now.Store(&signing)
}

// Get returns what was set last.
func (a *Authorities) Get(context.Context) (certificate.Authority, error) { return *a.now.Load(), nil }

// NewAuthority makes a CA.
func NewAuthority(t *testing.T) certificate.Authority {
	cert, key, err := certificate.NewAuthority()
	require.NoError(t, err)
	return certificate.Authority{Certificate: cert, Key: key}
}
