package httpapi

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRequestInfo(t *testing.T) {
	t.Parallel()
	s := newServer(t, &recordingBroker{})
	for _, c := range []struct {
		identity                      string
		platform, userID, name, email string
	}{
		{"cloudfoundry eyJ1c2VyX2lkIjoiNjgzZWE3NDgifQ==", "cloudfoundry", "683ea748", "", ""},
		{"kubernetes eyJ1c2VybmFtZSI6ImQiLCJ1aWQiOiJjMmRkZTI0MiJ9", "kubernetes", "c2dde242", "d", ""},
		{"other eyJ1c2VyX2lkIjoiMSIsInVzZXJfbmFtZSI6ImUiLCJlbWFpbCI6ImVAeCJ9", "other", "1", "e", "e@x"},
		{"nul eyJ1c2VyX25hbWUiOiJhXHUwMDAwYiJ9", "nul", "", "ab", ""},
		{"cloudfoundry not-base64!", "", "", "", ""},
		{"cloudfoundry bm8ganNvbg==", "", "", "", ""},
		{"", "", "", "", ""},
	} {
		s.do(t, request{method: "GET", target: anInstance, header: map[string]string{
			"X-Broker-API-Originating-Identity": c.identity,
			"X-Correlation-ID":                  "corr-1",
			"X-Broker-API-Version":              "2.17",
		}})
		want := requestInfo{ID: testIdentity, CorrelationID: "corr-1", APIVersion: "2.17", Platform: c.platform,
			UserID: c.userID, Name: c.name, Email: c.email}
		calls := s.broker.received()
		assert.True(t, len(calls) == 1 && calls[0].info == want, "%q: the broker saw %+v, want %+v", c.identity, calls, want)
	}
}
