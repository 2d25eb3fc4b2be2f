package dashboard

import (
	"context"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// connect is how to reach an instance's database.
type connect struct {
	Host    string
	Port    int
	TLS     string // a sentence
	Client  string // MariaDB's or MySQL's, with its option for TLS
	Account string // of the first binding, or USERNAME
}

// connect returns nil if the address is not known.
func (d *Dashboard) connect(ctx context.Context, i store.Instance, p *instancePage,
	bindings []store.ListedBinding) *connect {
	address, err := d.Fleet.Address(ctx, i)
	if err != nil || address.Host == "" {
		d.Logger.Debug("dashboard: the address of an instance is not known", "instance_id", i.ID, "error", err)
		return nil
	}
	c := &connect{Host: address.Host, Port: address.Port, TLS: "Optional", Client: "mariadb --ssl",
		Account: "USERNAME"}
	if p.Server.Flavour.Name == mysqladmin.MySQL {
		c.Client = "mysql --ssl-mode=REQUIRED"
	}
	if p.Plan.TLS == plan.TLSRequired || d.Fleet.TLSOnly(i.Location) {
		c.TLS = "Required"
	}
	for _, b := range bindings {
		if b.State == store.Ready {
			c.Account = b.Account
			break
		}
	}
	return c
}
