package httpapi

import (
	"context"
	"encoding/json"
	"errors"
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
	got := (&server{Handler: from}).do(t, request{method: "GET", target: "/v2/catalog"})
	assert.Equal(t, http.StatusOK, got.status)
	return got.body
}

func TestNewNeedsACatalog(t *testing.T) {
	t.Parallel()
	b := &catalogBroker{err: errors.New("no catalog today")}
	_, err := New(b, Config{Credentials: []Credential{{"broker", testPassword}}})
	assert.Error(t, err, "a broker without a catalog was taken")
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
	if got := s.do(t, request{method: "GET", target: "/v2/catalog"}); got.header.Get("Retry-After") != "" {
		t.Error("the next answer has a Retry-After")
	}
}

// A refusal has none of the fields of other responses.
func TestNoAdditionsToARefusal(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{maintenance: &domain.MaintenanceInfo{Version: "1.2.3"},
		act: func(context.Context) error { return errors.New("internal") }})
	got := s.do(t, request{method: "GET", target: anInstance})
	assert.True(t, got.status == 500 && got.object["maintenance_info"] == nil, "answer %d %v", got.status, got.object)
}
