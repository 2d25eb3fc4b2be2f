// Package inventory reads what servers hold, and compares it with the records. What follows from a difference is up to
// package doctor in a broker that runs, and to package recovery after PostgreSQL was restored from a backup.
package inventory

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// names are like those that the broker gives.
var names = map[string]*regexp.Regexp{
	store.DatabaseResource:  regexp.MustCompile(`^db_[a-z2-7]{20}$`),
	store.AccountResource:   regexp.MustCompile(`^u_[a-z2-7]{20}$`),
	store.DedicatedResource: regexp.MustCompile(`^d_[a-z2-7]{20}$`),
}

// Ours reports whether a thing of a kind of store.Resource has a name as the broker gives it.
func Ours(kind, name string) bool { return names[kind].MatchString(name) }

// Servers lists the shared servers that are configured or have records, and store.DedicatedServers if there is a
// launcher or a record of a dedicated server.
func Servers(ctx context.Context, s *store.Store, f *fleet.Fleet) ([]string, error) {
	all, err := s.Resources.Servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which servers there are records of: %w", err)
	}
	all = append(all, f.Shared.Names()...)
	if len(f.Launchers()) > 0 {
		all = append(all, store.DedicatedServers)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Holdings are what a mysqld holds.
type Holdings struct {
	Databases, Accounts []string
	Locked              []string // accounts, as far as that is known
	Grants              []mysqladmin.Grant
	Mixed               map[string]string // databases whose data a restore is replacing: the backup that mends each
}

// Read lists what a mysqld holds.
func Read(ctx context.Context, server *mysqladmin.Server) (h Holdings, err error) {
	if h.Databases, err = server.Databases(ctx); err != nil {
		return h, err
	}
	if h.Accounts, err = server.Accounts(ctx); err != nil {
		return h, err
	}
	if h.Locked, _, err = server.LockedAccounts(ctx); err != nil {
		return h, err
	}
	if h.Mixed, err = server.Mixtures(ctx); err != nil {
		return h, err
	}
	h.Grants, err = server.Grants(ctx)
	return h, err
}

// Account is an account of an instance whose data is on a server. A stray one has no record but its name: it may use
// the instance's database.
type Account struct {
	store.RecordedAccount
	Instance store.RecordedInstance
	There    bool
	Grant    *mysqladmin.Grant // on the instance's database; nil if there is none
}

// CompareAccounts compares the accounts on a server with those that are recorded of the instances there. To find no
// strays that are being created, read the records after the server.
func (h Holdings) CompareAccounts(instances []store.RecordedInstance,
	recorded []store.RecordedAccount) (known, strays []Account) {
	type of struct{ account, database string }
	granted := make(map[of]*mysqladmin.Grant, len(h.Grants))
	for n, g := range h.Grants {
		granted[of{g.Account, g.Database}] = &h.Grants[n]
	}
	there := make(map[string]bool, len(h.Accounts)) // whether each is recorded
	for _, name := range h.Accounts {
		there[name] = false
	}
	byDatabase, byID := map[string]store.RecordedInstance{}, map[string]store.RecordedInstance{}
	for _, i := range instances {
		byDatabase[i.Database], byID[i.ID] = i, i
	}
	for _, a := range recorded {
		_, isThere := there[a.Account]
		if isThere {
			there[a.Account] = true
		}
		if i, here := byID[a.InstanceID]; here {
			known = append(known, Account{a, i, isThere, granted[of{a.Account, i.Database}]})
		}
	}
	for n, g := range h.Grants {
		i, here := byDatabase[g.Database]
		isRecorded, isThere := there[g.Account]
		if here && isThere && !isRecorded && Ours(store.AccountResource, g.Account) {
			strays = append(strays, Account{store.RecordedAccount{Account: g.Account}, i, true, &h.Grants[n]})
		}
	}
	return known, strays
}
