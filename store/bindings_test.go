package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// Records of expired bindings that no platform deletes are deleted in the end.
func TestDeleteExpired(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
	inTx(t, s, func(tx *store.Tx) error {
		return tx.InsertBinding(store.Binding{InstanceID: "i", ID: "b", Role: "admin", Account: "u"})
	})
	write(t, s, func(tx *store.Tx) { tx.RecordExpired("i", "b") })
	for _, c := range []struct {
		age  time.Duration
		want int64
	}{{time.Hour, 0}, {0, 1}, {0, 0}} {
		n, err := s.Bindings.DeleteExpired(t.Context(), c.age)
		assert.True(t, n == c.want && err == nil,
			"%d records older than %v were deleted instead of %d: %v", n, c.age, c.want, err)
	}
}
