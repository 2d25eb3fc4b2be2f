package process_test

import (
	"fmt"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
)

// A new server knows time zones by their names. One that was made without them gets them.
func TestTimeZones(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		l := open(t, newConfig(t, binary))
		spec := newSpec("zones")
		end := launch(t, l, spec)
		db := connect(t, spec, end)
		if n := queryInt(t, db, "SELECT COUNT(*) FROM mysql.time_zone_name"); n < 500 {
			t.Errorf("the server has %d time zones", n)
		}
		for _, table := range []string{"time_zone", "time_zone_name", "time_zone_transition", "time_zone_transition_type"} {
			exec(t, db, "DELETE FROM mysql."+table) // the server has not read them yet
		}
		admin, err := mysqladmin.Open(mysqladmin.Config{Name: "zones", Addr: end.AdminAddress(), ServerName: end.Host,
			User: spec.AdminUser, Password: spec.AdminPassword, CA: end.CACertificate, MaxConns: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		for _, want := range []bool{false, true} {
			if has, err := admin.Setup.HasTimeZones(t.Context()); has != want || err != nil {
				t.Fatalf("the server has time zones: %v, %v", has, err)
			}
			if err := admin.Setup.LoadTimeZones(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"Europe/Zurich", "America/New_York", "US/Pacific", "Asia/Kolkata", "Australia/Lord_Howe",
			"America/Sao_Paulo", "Africa/Casablanca", "UTC", "Etc/GMT+5", "Asia/Kathmandu"} {
			location, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			for at := time.Date(1970, 1, 2, 3, 4, 5, 0, time.UTC); at.Year() < 2037; at = at.AddDate(0, 0, 97) {
				var got string
				text := at.Format(time.DateTime)
				if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT CONVERT_TZ('%s', 'UTC', '%s')", text, name)).Scan(&got); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if want := at.In(location).Format(time.DateTime); got != want {
					t.Errorf("%s in %s is %s instead of %s", text, name, got, want)
				}
			}
		}
	})
}
