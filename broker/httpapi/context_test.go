package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/jackc/pgx/v5"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
)

// storableTime is how long PostgreSQL may take for one context.
const storableTime = 20 * time.Second

// FuzzContext checks that PostgreSQL's jsonb stores every accepted context, keeps its meaning, and does not
// write much more than it was given.
func FuzzContext(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"platform":"cloudfoundry","organization_name":"ä €"}`, `{"x":"\u0000"}`, `{"x":"\\u0000"}`,
		`{"x":"\ud800"}`, `{"x":"\ud83d\udca9"}`, `{"x":"\uffff\ufffe"}`, `{"\u007f\b":"\/"}`, "{\"x\":\"\u2028\"}",
		`{"x":1e400000}`, `{"x":1e-400000}`, `{"x":1e400}`, `{"x":-0.0e-0}`, `{"x":1e131071}`,
		`{"x":0e999999999999999999999}`, `{"x":` + strings.Repeat("9", 400) + `}`,
		`{"x":` + strings.Repeat("9", 140_000) + `}`, `{"x":0.` + strings.Repeat("3", 17_000) + `}`,
		`{"x":[` + strings.Repeat("1e400,", 10_000) + `1]}`,
		`{"a":1,"a":{"b":2}}`, `{"":{"":[[],{},null,true]}}`, nested(63),
	} {
		f.Add(seed)
	}
	conn, err := pgx.Connect(f.Context(), servers.Postgres(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close(context.WithoutCancel(f.Context())) })
	f.Fuzz(func(t *testing.T, sent string) {
		var d domain.ProvisionDetails
		object, fault := checkRequestObject([]byte(`{"service_id":"s","plan_id":"p","context":`+sent+`}`), &d)
		if fault != "" || d.RawContext == nil {
			return
		}
		var stored string
		began := limits.Watch()
		if err := conn.QueryRow(t.Context(), "SELECT $1::jsonb::text", string(d.RawContext)).Scan(&stored); err != nil {
			t.Fatalf("PostgreSQL refuses %.1000q: %v", object, err)
		}
		began.Done(t, fmt.Sprintf("PostgreSQL stores %.1000q", object), storableTime)
		if given, got := len(d.RawContext), len(stored); got > 200*given {
			t.Errorf("PostgreSQL made %d bytes of %d: %.1000q", got, given, object)
		}
		var given, got any
		decode(t, string(d.RawContext), &given)
		decode(t, stored, &got)
		if !reflect.DeepEqual(given, got) {
			t.Errorf("PostgreSQL keeps %.1000q as %.1000q", d.RawContext, stored)
		}
	})
}

// decode reads JSON with every number exact, in a form that compares.
func decode(t *testing.T, text string, into *any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("decode %.1000q: %v", text, err)
	}
	*into = exact(t, *into)
}

func exact(t *testing.T, value any) any {
	t.Helper()
	switch v := value.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			t.Fatalf("%.1000q is no number", v)
		}
		return json.Number(r.RatString())
	case map[string]any:
		for name, inner := range v {
			v[name] = exact(t, inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = exact(t, inner)
		}
	}
	return value
}
