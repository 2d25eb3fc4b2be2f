package mysqladmin_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
)

// TestCanTake is about copies, moves and restores: none crosses flavours, whatever the versions, nor goes back to an
// older series.
func TestCanTake(t *testing.T) {
	for _, one := range []struct {
		to, of mysqladmin.Flavour
		can    bool
	}{
		{mysqladmin.Flavour{Name: "MySQL", Version: "8.4.3"}, mysqladmin.Flavour{Name: "MySQL", Version: "8.4.9"}, true},
		{mysqladmin.Flavour{Name: "MySQL", Version: "9.7.4-2"}, mysqladmin.Flavour{Name: "MySQL", Version: "8.4.9"}, true},
		{mysqladmin.Flavour{Name: "MySQL", Version: "8.4.9"}, mysqladmin.Flavour{Name: "MySQL", Version: "9.0.1"}, false},
		{mysqladmin.Flavour{Name: "MariaDB", Version: "10.6.20-MariaDB"}, mysqladmin.Flavour{Name: "MariaDB", Version: "10.11.2-MariaDB"}, false},
		{mysqladmin.Flavour{Name: "MySQL", Version: "9.7.4-2"}, mysqladmin.Flavour{Name: "MariaDB", Version: "10.11.2-MariaDB"}, false},
		{mysqladmin.Flavour{Name: "MySQL", Version: "9.7.4-2"}, mysqladmin.Flavour{Name: "MariaDB", Version: "9.7.4-MariaDB"}, false},
		{mysqladmin.Flavour{Name: "MariaDB", Version: "11.8.3-MariaDB"}, mysqladmin.Flavour{Name: "MySQL", Version: "8.0.36"}, false},
	} {
		assert.Equal(t, one.can, one.to.CanTake(one.of), "%s can take what %s", one.to, one.of)
	}
}
