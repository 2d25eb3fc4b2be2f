package provisioner

import (
	"encoding/json"

	"mysql-broker/store"
)

// TLS says whether an account may log in without TLS. Servers offer TLS to every account either way.
type TLS string

const (
	TLSOptional TLS = "optional"
	TLSRequired TLS = "required"
)

// RequiresTLS tells whether the account of a binding may log in with TLS only. ca is the CA of the server that the
// account is on, nil if it is not known. A binding that records nothing was made when every account required TLS
// wherever the CA was known.
func RequiresTLS(b store.Binding, ca []byte) bool {
	switch TLS(b.TLS) {
	case TLSRequired:
		return true
	case TLSOptional:
		return false
	}
	return ca != nil
}

// bindingTLS is what a new binding gets: what the plan says, or more if more is asked for, but never less.
func (p *Provisioner) bindingTLS(i store.Instance, plan Plan, asked TLS) (TLS, error) {
	switch {
	case asked == TLSOptional && plan.TLS == TLSRequired:
		return "", refuse(Invalid, "Parameter \"tls\" must be %[2]s or left out. Plan %[1]s requires TLS of every binding.",
			plan.Name, TLSRequired)
	case asked != TLSRequired && plan.TLS != TLSRequired:
		return TLSOptional, nil
	case p.withoutTLS(i):
		return "", refuse(Invalid, "The MySQL server of this service instance offers no TLS, so a binding cannot require "+
			"it. Ask your operator to give the server a certificate.")
	}
	return TLSRequired, nil
}

// withoutTLS tells whether an instance is on a server that is known to offer no TLS. Dedicated servers all offer it.
func (p *Provisioner) withoutTLS(i store.Instance) bool {
	server, err := p.shared.Server(i.Server)
	return err == nil && server.WithoutTLS()
}

// tlsOnly tells whether an instance is on a server that is known to let nobody log in without TLS.
func (p *Provisioner) tlsOnly(i store.Instance) bool {
	server, err := p.shared.Server(i.Server)
	return err == nil && server.TLSOnly()
}

// sameTLS tells whether a request asks for the TLS that a binding was asked for with, or for what the binding has. What
// its plan says may have changed meanwhile.
func sameTLS(b store.Binding, plan Plan, asked TLS) bool {
	var recorded BindingParameters
	if json.Unmarshal(b.Parameters, &recorded) != nil {
		return false
	}
	if asked == recorded.TLS {
		return true
	}
	if asked == "" {
		asked = plan.TLS
	}
	return asked == TLS(b.TLS)
}
