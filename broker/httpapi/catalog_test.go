package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13"
	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
)

// catalogBroker sells what is in a catalog.
type catalogBroker struct {
	recordingBroker
	services []domain.Service
	err      error
}

func (b *catalogBroker) Services(context.Context) ([]domain.Service, error) { return b.services, b.err }

// The catalog is, byte for byte, the response of brokerapi.
func TestCatalogIsTheLibrarys(t *testing.T) {
	t.Parallel()
	shipped, err := catalog.Load("../../catalog.yml")
	require.NoError(t, err)
	b := &catalogBroker{services: shipped.Services()}
	ours, err := New(b, Config{Credentials: []Credential{{"broker", testPassword}}})
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	library := brokerapi.New(adapter{b, log}, log, brokerapi.BrokerCredentials{Username: "broker", Password: testPassword})
	want := getCatalog(t, library)
	for range 2 {
		assert.Equal(t, want, getCatalog(t, ours))
	}
}

// brokerapi has no field for binding_rotatable.
func TestCatalogSaysWhatCanRotate(t *testing.T) {
	t.Parallel()
	shipped, err := catalog.Load("../../catalog.yml")
	require.NoError(t, err)
	b := &catalogBroker{services: shipped.Services()}
	b.rotatable = b.services[0].Plans[0].ID
	ours, err := New(b, Config{Credentials: []Credential{{"broker", testPassword}}})
	require.NoError(t, err)
	var got struct {
		Services []struct {
			Plans []struct {
				Rotatable *bool `json:"binding_rotatable"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(getCatalog(t, ours)), &got))
	for n, p := range got.Services[0].Plans {
		assert.False(t, (p.Rotatable != nil) != (n == 0) || n == 0 && !*p.Rotatable,
			"plan %d has binding_rotatable %v", n, p.Rotatable)
	}
}

// getCatalog returns the body, after it has checked the rest of the response.
func getCatalog(t *testing.T, from http.Handler) string {
	t.Helper()
	q := httptest.NewRequest(http.MethodGet, "/v2/catalog", nil)
	q.SetBasicAuth("broker", testPassword)
	q.Header.Set("X-Broker-API-Version", "2.17")
	q.Header.Set("X-Broker-API-Request-Identity", testIdentity)
	w := httptest.NewRecorder()
	from.ServeHTTP(w, q)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, []string{"application/json"}, w.Header()["Content-Type"])
	assert.Equal(t, []string{testIdentity}, w.Header()["X-Broker-Api-Request-Identity"])
	return w.Body.String()
}

func TestNewNeedsACatalog(t *testing.T) {
	t.Parallel()
	b := &catalogBroker{err: errors.New("no catalog today")}
	_, err := New(b, Config{Credentials: []Credential{{"broker", testPassword}}})
	assert.Error(t, err, "a broker without a catalog was taken")
}
