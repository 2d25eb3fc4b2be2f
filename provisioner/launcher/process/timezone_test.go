package process_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/testdrive"
)

// A new server knows time zones by their names. One that was made without them gets them.
func TestTimeZones(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		l := open(t, newConfig(t, binary))
		spec := newSpec("zones")
		end := launch(t, l, spec)
		db := connect(t, spec, end)
		n := testdrive.Read[int64](t, db, "SELECT COUNT(*) FROM mysql.time_zone_name")
		assert.True(t, n >= 500, "the server has %d time zones", n)
		for _, table := range []string{"time_zone", "time_zone_name", "time_zone_transition", "time_zone_transition_type"} {
			testdrive.Exec(t, db, "DELETE FROM mysql."+table) // the server has not read them yet
		}
		admin, err := mysqladmin.Open(mysqladmin.Config{Name: "zones", Addr: end.AdminAddress(), ServerName: end.Host,
			User: spec.AdminUser, Password: spec.AdminPassword, CA: end.CACertificate, MaxConns: 2})
		require.NoError(t, err)
		defer admin.Close()
		for _, want := range []bool{false, true} {
			has, err := admin.Setup.HasTimeZones(t.Context())
			require.True(t, has == want && err == nil, "the server has time zones: %v, %v", has, err)
			require.NoError(t, admin.Setup.LoadTimeZones(t.Context()))
		}
		for _, name := range []string{"Europe/Zurich", "America/New_York", "US/Pacific", "Asia/Kolkata", "Australia/Lord_Howe",
			"America/Sao_Paulo", "Africa/Casablanca", "UTC", "Etc/GMT+5", "Asia/Kathmandu"} {
			location, err := time.LoadLocation(name)
			require.NoError(t, err)
			for at := time.Date(1970, 1, 2, 3, 4, 5, 0, time.UTC); at.Year() < 2037; at = at.AddDate(0, 0, 97) {
				var got string
				text := at.Format(time.DateTime)
				if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT CONVERT_TZ('%s', 'UTC', '%s')", text, name)).Scan(&got); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				assert.Equal(t, at.In(location).Format(time.DateTime), got, "%s in %s", text, name)
			}
		}
	})
}
