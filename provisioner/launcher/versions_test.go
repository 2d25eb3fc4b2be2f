package launcher_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher"
)

func TestNewest(t *testing.T) {
	offered := []launcher.Version{{"mariadb", "10.11.19"}, {"mysql", "9.7.4"}, {"mariadb", "11.8.9"}, {"mariadb", "11.8.10"}}
	for _, c := range []struct{ flavour, version, want string }{
		{"", "", "MariaDB 11.8.10"}, {"mysql", "", "MySQL 9.7.4"}, {"", "10.11", "MariaDB 10.11.19"},
		{"mariadb", "11.8.9", "MariaDB 11.8.9"}, {"mariadb", "11.8.1", ""}, {"", "1", ""}, {"mysql", "11", ""},
	} {
		got, found := launcher.Newest(offered, c.flavour, c.version)
		assert.False(t, found != (c.want != "") || found && got.String() != c.want,
			"%q %q: %v, %v, want %q", c.flavour, c.version, got, found, c.want)
	}
	_, found := launcher.Newest(nil, "", "")
	assert.False(t, found, "nothing is offered, and something is found")
}

func TestCompareVersions(t *testing.T) {
	for _, c := range []struct {
		a, b   string
		want   int
		series bool
	}{
		{"10.11.9", "10.11.19", -1, true}, {"11.8.9", "10.11.19", 1, false}, {"9.7", "9.7.0", 0, true},
		{"10.11.19-MariaDB-log", "10.11.19", 0, true}, {"", "9.7.4", -1, false}, {"8.4.10", "9.0.0", -1, false},
	} {
		assert.Equal(t, c.want, launcher.CompareVersions(c.a, c.b), "%s and %s", c.a, c.b)
		assert.Equal(t, c.series, launcher.SameSeries(c.a, c.b), "%s and %s are of one series", c.a, c.b)
	}
	assert.Equal(t, "9.7.0", (launcher.Version{Flavour: "mysql", Version: "9.7"}).Full(), "9.7 in full")
}
