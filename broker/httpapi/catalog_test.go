package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13"
	"code.cloudfoundry.org/brokerapi/v13/domain"

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
	if err != nil {
		t.Fatal(err)
	}
	b := &catalogBroker{services: shipped.Services()}
	ours, err := New(b, Config{Credentials: []Credential{{"broker", testPassword}}})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	library := brokerapi.New(adapter{b, log}, log, brokerapi.BrokerCredentials{Username: "broker", Password: testPassword})
	want := getCatalog(t, library)
	for range 2 {
		if got := getCatalog(t, ours); got != want {
			t.Errorf("the catalog is\n%s\nbrokerapi's is\n%s", got, want)
		}
	}
}

// brokerapi has no field for binding_rotatable.
func TestCatalogSaysWhatCanRotate(t *testing.T) {
	t.Parallel()
	shipped, err := catalog.Load("../../catalog.yml")
	if err != nil {
		t.Fatal(err)
	}
	b := &catalogBroker{services: shipped.Services()}
	b.rotatable = b.services[0].Plans[0].ID
	ours, err := New(b, Config{Credentials: []Credential{{"broker", testPassword}}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Services []struct {
			Plans []struct {
				Rotatable *bool `json:"binding_rotatable"`
			}
		}
	}
	if err := json.Unmarshal([]byte(getCatalog(t, ours)), &got); err != nil {
		t.Fatal(err)
	}
	for n, p := range got.Services[0].Plans {
		if (p.Rotatable != nil) != (n == 0) || n == 0 && !*p.Rotatable {
			t.Errorf("plan %d has binding_rotatable %v", n, p.Rotatable)
		}
	}
}

// getCatalog returns the body, after it has checked the rest of the response.
func getCatalog(t *testing.T, from http.Handler) string {
	t.Helper()
	server := httptest.NewServer(from)
	defer server.Close()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v2/catalog", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.SetBasicAuth("broker", testPassword)
	q.Header.Set("X-Broker-API-Version", "2.17")
	q.Header.Set("X-Broker-API-Request-Identity", testIdentity)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Content-Type": "application/json",
		"X-Broker-Api-Request-Identity": testIdentity} {
		if got := answer.Header[name]; answer.StatusCode != 200 || len(got) != 1 || got[0] != want {
			t.Errorf("status %d, %s %q", answer.StatusCode, name, got)
		}
	}
	return string(body)
}

func TestNewNeedsACatalog(t *testing.T) {
	t.Parallel()
	b := &catalogBroker{err: errors.New("no catalog today")}
	if _, err := New(b, Config{Credentials: []Credential{{"broker", testPassword}}}); err == nil {
		t.Error("a broker without a catalog was taken")
	}
}
