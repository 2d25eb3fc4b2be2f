package broker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

func TestWhere(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("o", maxPlaceBytes)
	for _, test := range []struct{ organization, space, context, wantOrganization, wantSpace string }{
		{"o", "s", ``, "o", "s"},
		{"o", "s", `{"organization_guid": "other", "space_guid": "other"}`, "o", "s"},
		{"", "", `{"platform": "kubernetes", "organization_guid": "o", "space_guid": "s"}`, "o", "s"},
		{"o", "", `{"platform": "kubernetes", "organization_guid": "other", "space_guid": "s"}`, "o", "s"},
		{"", "", `{"platform": "cloudfoundry", "organization_guid": "o", "space_guid": "s"}`, "", ""},
		{"", "", `{"organization_guid": "o", "space_guid": "s"}`, "", ""},
		{"o", "", ``, "", ""},
		{"", "s", `[]`, "", ""},
		{long, "s", ``, long, "s"},
		{"o", long + "s", ``, "", ""},
	} {
		organization, space, err := where(domain.ProvisionDetails{OrganizationGUID: test.organization, SpaceGUID: test.space,
			RawContext: json.RawMessage(test.context)})
		assert.True(t, organization == test.wantOrganization && space == test.wantSpace && (err != nil) == (space == "") &&
			(err == nil || test.organization != "o" || test.space != "" || strings.Contains(err.Error(), `"space_guid"`)),
			"%.100v is in %.20q, %.20q, %v", test, organization, space, err)
	}
}

func TestKept(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		``: `{}`,
		`{"platform":"cloudfoundry","organization_name":"ä €","space_annotations":{"n":1e131071}}`: `{"platform":"cloudfoundry","organization_name":"ä €"}`,
		`{"platform":"kubernetes","clusterid":"c","namespace":"n"}`:                                `{"platform":"kubernetes","clusterid":"c","namespace":"n"}`,
		`{"platform":1,"space_name":["s"],"instance_name":"\ud83d!\ud83d\udca9"}`:                  `{"instance_name":"�!💩"}`,
		`{"platform":null,"organization_guid":"o","space_guid":"s"}`:                               `{"organization_guid":"o","space_guid":"s"}`,
		`{"instance_name":"` + strings.Repeat("ä", 300) + `"}`:                                     `{"instance_name":"` + strings.Repeat("ä", 255) + `"}`,
	} {
		got := string(kept(json.RawMessage(sent)))
		assert.Equal(t, want, got, "of %s, %s is kept", sent, got)
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	context := json.RawMessage(`{"organization_guid": "o", "space_guid": "s"}`)
	for _, test := range []struct {
		resource            *domain.BindResource
		context             json.RawMessage
		organization, space string
	}{
		{nil, context, "o", "s"},
		{nil, nil, "", ""},
		{nil, json.RawMessage(`"a string"`), "", ""},
		{&domain.BindResource{}, context, "o", "s"},
		{&domain.BindResource{SpaceGuid: "s"}, context, "o", "s"},
		{&domain.BindResource{SpaceGuid: "another"}, context, "", "another"}, // the context names the instance's organization
		{&domain.BindResource{SpaceGuid: "another"}, nil, "", "another"},
	} {
		o, s := user(domain.BindDetails{BindResource: test.resource, RawContext: test.context})
		assert.True(t, o == test.organization && s == test.space, "%+v of %s is in %q, %q", test.resource, test.context, o, s)
	}
}

func TestApplicationAndReader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d           domain.BindDetails
		app, reader string
	}{
		{domain.BindDetails{}, "", ""},
		{domain.BindDetails{AppGUID: "a"}, "a", ""},
		{domain.BindDetails{AppGUID: "old", BindResource: &domain.BindResource{AppGuid: "a"}}, "a", ""},
		{domain.BindDetails{AppGUID: "a", BindResource: &domain.BindResource{CredentialClientID: "c"}}, "a", "c"},
	} {
		app, reader := appGUID(test.d), readerID(test.d)
		assert.True(t, app == test.app && reader == test.reader, "%+v is of %q, read by %q", test.d, app, reader)
	}
}

// A recovered instance has a checksum in place of bootstrap.
func TestParametersAsSent(t *testing.T) {
	t.Parallel()
	for recorded, want := range map[string]string{
		`{"charset":"latin1"}`:                         `{"charset":"latin1"}`,
		`{"charset":"latin1","bootstrap_sha256":"00"}`: `{"charset":"latin1"}`,
		`{"bootstrap":"DO 'bootstrap_sha256'"}`:        `{"bootstrap":"DO 'bootstrap_sha256'"}`,
	} {
		assert.Equal(t, want, string(asSent(json.RawMessage(recorded))), recorded)
	}
}

func TestNoParameters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": true, "{}": true, "null": true, `{"role": "admin"}`: false, "[]": false, "{": false} {
		assert.Equal(t, want, noParameters(json.RawMessage(text)), "%q", text)
	}
}

func TestMaintenance(t *testing.T) {
	t.Parallel()
	of := plan.Plan{Name: "small", MaintenanceVersion: "1.1.0"}
	for _, test := range []struct {
		info  *domain.MaintenanceInfo
		given bool
		ok    bool
	}{
		{nil, false, true},
		{&domain.MaintenanceInfo{}, false, true},
		{&domain.MaintenanceInfo{Description: "no version"}, false, true},
		{&domain.MaintenanceInfo{Version: "1.1.0", Description: "of another broker"}, true, true},
		{&domain.MaintenanceInfo{Version: "1.0.0"}, true, false},
	} {
		assert.Equal(t, test.ok, checkMaintenance(of, test.info) == nil, "%+v", test.info)
		assert.Equal(t, test.given, given(test.info), "%+v", test.info)
	}
}

func TestBindingMetadata(t *testing.T) {
	t.Parallel()
	assert.Zero(t, bindingMetadata(bindings.Credentials{}), "of a binding that does not end")
	at := time.Date(2026, 3, 1, 13, 0, 0, 5, time.FixedZone("", 3600))
	want := domain.BindingMetadata{ExpiresAt: "2026-03-01T12:00:00.0Z", RenewBefore: "2026-03-01T11:00:00.0Z"}
	assert.Equal(t, want, bindingMetadata(bindings.Credentials{ExpiresAt: at, RenewBefore: at.Add(-time.Hour)}))
}

func TestStorageAttributes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		bytes, quota int64 // MiB
		over         *time.Time
		state        any
		says         string
	}{
		{10, 0, nil, nil, ""}, // the plan was removed
		{79, 100, nil, "ok", ""},
		{80, 100, nil, "nearly full", "holds 80.0 of 100 MiB, 80 % or more. At 100 %"},
		{101, 100, &at, "over quota", "Until it holds less than 95 %"},
		{96, 100, &at, "over quota", "(errors 1142 and 1044)"}, // accounts cannot write yet
	} {
		s := steps.Storage{Usage: store.Usage{Bytes: test.bytes << 20, MeasuredAt: at, OverSince: test.over}, Quota: test.quota << 20}
		got := storageAttributes(s)
		message, _ := got["storage_message"].(string)
		assert.True(t, got["storage_state"] == test.state && strings.Contains(message, test.says) &&
			(message == "") == (test.says == ""), "%d of %d MiB: %v", test.bytes, test.quota, got)
		over := got["storage_over_quota_since"]
		assert.False(t, (over != nil) != (test.over != nil) || over != nil && over != "2026-03-01T12:00:00Z",
			"over since %v", over)
	}
}
