package provisioner

import (
	"encoding/json"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// bindingTLS is what a new binding gets: what the plan says, or more if more is asked for, but never less.
func (p *Provisioner) bindingTLS(i store.Instance, of plan.Plan, asked plan.TLS) (plan.TLS, error) {
	switch {
	case asked == plan.TLSOptional && of.TLS == plan.TLSRequired:
		return "", refuse(Invalid, "Parameter \"tls\" must be %[2]s or left out. Plan %[1]s requires TLS of every binding.",
			of.Name, plan.TLSRequired)
	case asked != plan.TLSRequired && of.TLS != plan.TLSRequired:
		return plan.TLSOptional, nil
	case p.fleet.WithoutTLS(i.Location):
		return "", refuse(Invalid, "The MySQL server of this service instance offers no TLS, so a binding cannot require "+
			"it. Ask your operator to give the server a certificate.")
	}
	return plan.TLSRequired, nil
}

// sameTLS tells whether a request asks for the TLS that a binding was asked for with, or for what the binding has. What
// its plan says may have changed meanwhile.
func sameTLS(b store.Binding, of plan.Plan, asked plan.TLS) bool {
	var recorded plan.BindingParameters
	if json.Unmarshal(b.Parameters, &recorded) != nil {
		return false
	}
	if asked == recorded.TLS {
		return true
	}
	if asked == "" {
		asked = of.TLS
	}
	return asked == plan.TLS(b.TLS)
}
