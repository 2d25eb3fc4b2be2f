package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

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

// shipped returns a broker that sells what is in the shipped catalog.
func shipped(t *testing.T) *catalogBroker {
	c, err := catalog.Load("../../catalog.yml")
	require.NoError(t, err)
	return &catalogBroker{services: c.Services()}
}

// The catalog is, byte for byte, the response of brokerapi.
func TestCatalogIsTheLibrarys(t *testing.T) {
	t.Parallel()
	b, log := shipped(t), slog.New(slog.DiscardHandler)
	ours := newServerWith(t, b, Proxies{})
	library := brokerapi.New(adapter{b, log}, log, brokerapi.BrokerCredentials{Username: "broker", Password: testPassword})
	want := getCatalog(t, library)
	for range 2 {
		assert.Equal(t, want, getCatalog(t, ours))
	}
}

// brokerapi has no field for binding_rotatable.
func TestCatalogSaysWhatCanRotate(t *testing.T) {
	t.Parallel()
	b := shipped(t)
	b.rotatable = b.services[0].Plans[0].ID
	var got struct {
		Services []struct {
			Plans []struct {
				Rotatable *bool `json:"binding_rotatable"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(getCatalog(t, newServerWith(t, b, Proxies{}))), &got))
	for n, p := range got.Services[0].Plans {
		assert.False(t, (p.Rotatable != nil) != (n == 0) || n == 0 && !*p.Rotatable,
			"plan %d has binding_rotatable %v", n, p.Rotatable)
	}
}

// getCatalog returns the body, after it has checked the rest of the response.
func getCatalog(t *testing.T, from http.Handler) string {
	got := (&server{Handler: from}).do(t, request{method: "GET", target: "/v2/catalog"})
	assert.Equal(t, http.StatusOK, got.status)
	return got.body
}

// Fields that brokerapi lacks reach the platform.
func TestAdditions(t *testing.T) {
	t.Parallel()
	b := &recordingBroker{retryAfter: 1500 * time.Millisecond, maintenance: &domain.MaintenanceInfo{Version: "1.2.3"}}
	s := newServer(t, b)
	for _, target := range []string{anInstance, aBinding} {
		got := s.do(t, request{method: "GET", target: target + "/last_operation"})
		after := got.header.Get("Retry-After")
		assert.True(t, after == "2" && got.object["maintenance_info"] == nil,
			"%s: Retry-After %q, want 2; %v", target, after, got.object)
	}
	got := s.do(t, request{method: "GET", target: anInstance})
	info, _ := got.object["maintenance_info"].(map[string]any)
	assert.True(t, info["version"] == "1.2.3" && got.object["plan_id"] == "p" && got.header.Get("Retry-After") == "",
		"answer %d %v, want maintenance_info beside the library's fields", got.status, got.object)
	got = s.do(t, request{method: "GET", target: "/v2/catalog"})
	assert.Empty(t, got.header.Get("Retry-After"), "of the next answer")
}
