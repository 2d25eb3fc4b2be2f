package audit

import (
	"context"
	"crypto/tls"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/test/servers"
)

// Credentials are what an application reads from a binding.
type Credentials struct {
	Host          string `json:"host"`
	Port          int    `json:"port"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	Database      string `json:"database"`
	CACertificate string `json:"ca_certificate"`
}

// ReadCredentials decodes the value of "credentials" in a response.
func ReadCredentials(value any) (Credentials, error) {
	var c Credentials
	raw, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err == nil && c.Password == "" {
		err = errors.New("there is no password in the credentials")
	}
	return c, err
}

// At are the credentials on another node of a cluster.
func (c Credentials) At(host string, port int) Credentials {
	c.Host, c.Port = host, port
	return c
}

// Open prepares connections that verify the server's certificate. It opens none yet.
func (c Credentials) Open() (*sql.DB, error) {
	cfg, err := servers.Login(c.Host, c.Port, c.Username, c.Password, c.CACertificate)
	if err != nil {
		return nil, err
	}
	cfg.DBName = c.Database
	return servers.Connect(cfg)
}

// Write puts a note into the binding's database, which Check then looks for.
func Write(ctx context.Context, c Credentials, note string) error {
	return Execute(ctx, c, "CREATE TABLE note (text varchar(100) PRIMARY KEY)", "INSERT INTO note VALUES ('"+note+"')")
}

// Change replaces the note in the binding's database.
func Change(ctx context.Context, c Credentials, note string) error {
	return Execute(ctx, c, "UPDATE note SET text = '"+note+"'")
}

// Execute runs statements with the binding's credentials.
func Execute(ctx context.Context, c Credentials, statements ...string) error {
	db, err := c.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// checkLogins logs in with all credentials that were ever reported.
func (a *audit) checkLogins(ctx context.Context, r records) {
	for _, b := range a.Reported.Bindings {
		if b.Credentials == (Credentials{}) {
			continue
		}
		a.checkFormerLogin(ctx, b, r)
		row, recorded := r.binding(b)
		if b.State == Exists || b.State == Unknown && recorded {
			if row.Account != b.Credentials.Username {
				a.report("Binding %q has the account %q; the platform was told %q.", b.ID, row.Account, b.Credentials.Username)
			}
			if err := a.login(ctx, b, a.reported(b.InstanceID).Note); err != nil {
				a.report("Missing: with the credentials of binding %q of instance %q: %v.", b.ID, b.InstanceID, err)
			}
		} else if err := a.login(ctx, b, ""); err == nil {
			a.report("Binding %q of instance %q is %s, and its account still logs in.", b.ID, b.InstanceID, b.State)
		} else if !refused(err) {
			a.report("Binding %q of instance %q is %s; its login is not refused but fails: %v.",
				b.ID, b.InstanceID, b.State, err)
		}
	}
}

// checkFormerLogin logs in where the data was before it was moved. That must work for as long as the place is kept
// and the binding exists.
func (a *audit) checkFormerLogin(ctx context.Context, b Binding, r records) {
	if b.Former == (Credentials{}) {
		return
	}
	kept := b.State == Exists && r.movedFrom(b.InstanceID)
	note := ""
	if kept {
		note = a.reported(b.InstanceID).Note
	}
	err := a.login(ctx, Binding{Credentials: b.Former}, note)
	switch {
	case kept && err != nil:
		a.report("Missing: with the former credentials of binding %q of instance %q: %v.", b.ID, b.InstanceID, err)
	case !kept && err == nil:
		a.report("Binding %q of instance %q is %s, and its account still logs in where the data was before.", b.ID,
			b.InstanceID, b.State)
	case !kept && !refused(err):
		a.report("Binding %q of instance %q is %s; its login where the data was before is not refused but fails: %v.",
			b.ID, b.InstanceID, b.State, err)
	}
}

// login also fails if the database does not contain the note.
func (a *audit) login(ctx context.Context, b Binding, note string) error {
	db, err := b.Credentials.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.PingContext(ctx); err != nil || note == "" {
		return err
	}
	var held string
	if err := db.QueryRowContext(ctx, "SELECT text FROM note").Scan(&held); err != nil {
		return fmt.Errorf("read the note: %w", err)
	}
	if held != note {
		return fmt.Errorf("the note is %q instead of %q", held, note)
	}
	return nil
}

// refused reports whether the server refused the login or does not exist. The dedicated server of a deleted instance
// does not, and another one may have its port by now, and may be ending.
func refused(err error) bool {
	_, no := errors.AsType[*mysql.MySQLError](err)
	_, another := errors.AsType[*tls.CertificateVerificationError](err)
	return no || another || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, mysql.ErrInvalidConn)
}
