package s3_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// The service refuses who has no key, and its bucket is empty.
func TestService(t *testing.T) {
	t.Parallel()
	service := s3.Start(t)
	r, err := http.Get("http://" + service.Address + "/" + s3.Bucket)
	require.NoError(t, err)
	defer r.Body.Close()
	assert.Equal(t, http.StatusForbidden, r.StatusCode, "whoever has no key is answered %s", r.Status)
	assert.Empty(t, service.Objects(t), "a new bucket")
}
