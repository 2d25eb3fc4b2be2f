package main

import (
	"context"
	"database/sql"
	"errors"
)

// visited is a tenant whose account has an open session at the unbind, as if its application still ran.
type visited struct {
	tenant
	ctx     context.Context
	server  server
	session *sql.DB
}

func (v *visited) life() []operation {
	operations := v.tenant.life()
	for i, o := range operations {
		switch o.name {
		case "unbind":
			operations[i].before = v.login
		case "deprovision":
			operations[i].before = v.loggedOut
		}
	}
	return operations
}

func (v *visited) login() (err error) {
	as := v.server
	if as.BrokerUser, as.BrokerPassword, err = v.account(); err != nil {
		return err
	}
	if v.session, err = as.connect(1); err != nil {
		return err
	}
	return v.session.PingContext(v.ctx)
}

// loggedOut makes sure that the session was ended.
func (v *visited) loggedOut() error {
	if err := v.session.PingContext(v.ctx); err == nil {
		return errors.New("the account's session goes on after the unbind")
	}
	return v.session.Close()
}
