package store

import "context"

// Endpoint is where a dedicated server listens, as its launcher reported last.
type Endpoint struct {
	Host          string `json:"host"`
	Port          int    `json:"port"`
	CACertificate []byte `json:"ca_certificate,omitempty"` // PEM
	AdminHost     string `json:"admin_host,omitempty"`     // for the broker, if it differs from Host
	AdminPort     int    `json:"admin_port,omitempty"`     // likewise for Port

	Members []string `json:"members,omitempty"` // host:port of all members of a group
}

// HasMembers reports whether the instance's server is recorded to be a group of servers.
func (i Instance) HasMembers() bool { return i.Endpoint != nil && len(i.Endpoint.Members) > 0 }

// serverInstance finds the instance of the dedicated server $1 of the launcher $2.
const serverInstance = `dedicated_id = $1 AND launcher = $2 AND location_kind = 'dedicated' AND id = (
	SELECT instance_id FROM resource WHERE kind = 'dedicated server' AND server = '' AND name = $1)`

// RecordEndpoint records where a dedicated server listens. It does nothing if that is recorded already or the instance
// is being deleted.
func (s Instances) RecordEndpoint(ctx context.Context, at Location, e Endpoint) error {
	_, err := s.db.Exec(ctx, `UPDATE instance SET endpoint = $3 WHERE `+serverInstance+`
		AND endpoint IS DISTINCT FROM $3::jsonb AND NOT EXISTS (SELECT FROM task
			WHERE instance_id = instance.id AND kind = 'deprovision' AND `+notEnded+`)`, at.Server, at.Launcher, e)
	return err
}

// ForgetEndpoint removes the recorded endpoint of a dedicated server that is about to be destroyed.
func (s Instances) ForgetEndpoint(ctx context.Context, at Location) error {
	_, err := s.db.Exec(ctx, `UPDATE instance SET endpoint = NULL WHERE `+serverInstance+` AND endpoint IS NOT NULL`,
		at.Server, at.Launcher)
	return err
}

// RecordVersion records the flavour and version of a dedicated server.
func (s Instances) RecordVersion(ctx context.Context, at Location, flavour, version string) error {
	_, err := s.db.Exec(ctx, `UPDATE instance SET server_flavour = $3, server_version = $4 WHERE `+serverInstance+`
		AND (server_flavour, server_version) IS DISTINCT FROM ($3, $4)`, at.Server, at.Launcher, flavour, version)
	return err
}

// SetVersion records the flavour and version of an instance's dedicated server.
func (t *Tx) SetVersion(id, flavour, version string) {
	t.change("set the server's version", `UPDATE instance SET server_flavour = $2, server_version = $3
		WHERE id = $1 AND :allowed`, id, flavour, version)
}
