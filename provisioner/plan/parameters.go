package plan

import "time"

// InstanceParameters are what a developer may ask for with an instance. Empty means the server's utf8mb4 default.
type InstanceParameters struct {
	Charset   string `json:"charset,omitempty"`
	Collation string `json:"collation,omitempty"`

	CloneFrom string `json:"clone_from,omitempty"` // the id of the instance to copy
	Bootstrap string `json:"bootstrap,omitempty"`  // SQL to run in the new database

	// RestoreFrom is the id of a backup, or of an instance whose latest backup the new one gets.
	RestoreFrom string `json:"restore_from,omitempty"`

	// RestoreToTime is the time to which the data of RestoreFrom is restored, in UTC; zero for the time of the backup.
	RestoreToTime time.Time `json:"restore_to_time,omitzero"`

	// Undelete is the id or the name of a deleted instance whose data the new one gets.
	Undelete string `json:"undelete,omitempty"`
	// KeepDeletedDays is for how long the data is kept once the instance is deleted, if not as long as its plan says.
	KeepDeletedDays Days `json:"keep_deleted_days,omitzero"`
}

// UpdateParameters are what a developer may ask for with an update.
type UpdateParameters struct {
	KeepDeletedDays Days
	Backup          string // BackupNow, or "" for none
	RestoreBackup   string // the id of a backup to restore in place, or ""
	Confirm         string // the name of the instance to restore it into
}

// BackupNow asks for a backup.
const BackupNow = "now"

// Fills reports whether the parameters ask for data, which takes longer than a request may.
func (p InstanceParameters) Fills() bool {
	return p.CloneFrom != "" || p.RestoreFrom != "" || p.Bootstrap != ""
}

// BindingParameters are what a developer may ask for with a binding.
type BindingParameters struct {
	Role Role `json:"role,omitempty"`
	TLS  TLS  `json:"tls,omitempty"` // "" for what the plan says
	TTL  TTL  `json:"ttl,omitempty"` // for how long the binding lasts; 0 for what the plan says

	RoleNamed bool `json:"-"` // the request has the role
}

// Role is what an account may do inside its database; no role reaches outside it.
type Role string

const (
	ReadOnly  Role = "read-only"
	ReadWrite Role = "read-write" // all that an application, its migrations and its dumps need
	Admin     Role = "admin"      // every privilege inside the database; EVENT only if the plan has Events
)

// Beyond reports whether a role may do more than the other one.
func (r Role) Beyond(other Role) bool {
	order := map[Role]int{ReadOnly: 1, ReadWrite: 2, Admin: 3}
	return order[r] > order[other]
}

// TLS says whether an account may log in without TLS. Servers offer TLS to every account either way.
type TLS string

const (
	TLSOptional TLS = "optional"
	TLSRequired TLS = "required"
)
