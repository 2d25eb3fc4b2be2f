package audit

import (
	"context"
	"slices"

	"mysql-broker/provisioner/launcher"
)

// checkLaunchers has each launcher inspected, and compares each dedicated server's content with the records.
func (a *audit) checkLaunchers(ctx context.Context, r records) {
	dedicated := slices.DeleteFunc(append(r.living(), r.former...), func(i instanceRow) bool { return i.Kind != "dedicated" })
	for _, i := range dedicated {
		if a.Launchers[i.Launcher] == nil {
			a.report("Instance %q is at the launcher %q, which nobody inspects.", i.ID, i.Launcher)
		}
	}
	for name, inspector := range a.Launchers {
		var ids []string
		suspended := map[string]bool{}
		for _, i := range r.retained {
			if i.Kind == "dedicated" && i.Launcher == name {
				suspended[i.Server] = true
			}
		}
		for _, i := range dedicated {
			if i.Launcher == name {
				ids = append(ids, i.Server)
			}
		}
		found, problems := inspector.Inspect(ids, suspended)
		a.found = append(a.found, problems...)
		for _, i := range dedicated {
			if e, there := found[i.Server]; there && i.Launcher == name {
				a.checkDedicated(ctx, i, e, r)
			}
		}
	}
}

// checkDedicated looks into one server.
func (a *audit) checkDedicated(ctx context.Context, i instanceRow, e launcher.Endpoint, r records) {
	password, err := a.adminPassword(ctx, i)
	if err != nil {
		a.report("The admin password of the dedicated server %s cannot be read: %v.", i.Server, err)
		return
	}
	where, at := "the dedicated server "+i.Server, Credentials{Host: e.Host, Port: e.Port, Username: "broker_admin",
		Password: password, CACertificate: string(e.CACertificate)}
	admin, err := at.Open()
	if err == nil {
		defer admin.Close()
		err = a.checkServer(ctx, where, admin, r, []instanceRow{i})
	}
	if err != nil {
		a.report("On %s, nothing can be read: %v.", where, err)
	}
}
