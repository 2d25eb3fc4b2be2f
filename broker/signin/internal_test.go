package signin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	for claim, want := range map[string]bool{
		`{"scope":["openid","dba"]}`:             true, // UAA
		`{"groups":["dba"]}`:                     true,
		`{"groups":"dba"}`:                       true,
		`{"roles":["x","dba"]}`:                  true,
		`{"realm_access":{"roles":["dba"]}}`:     true, // Keycloak
		`{"scope":"openid dba"}`:                 false,
		`{"groups":["dba2","/dba","DBA"]}`:       false,
		`{"groups":{"dba":true},"roles":7}`:      false,
		`{"groups":[["dba"],null,{"a":"dba"}]}`:  false,
		`{"name":"dba","user_name":"dba"}`:       false,
		`{"resource_access":{"x":{"roles":[]}}}`: false,
		`{}`:                                     false,
	} {
		var c claims
		if err := json.Unmarshal([]byte(claim), &c); err != nil {
			t.Errorf("%s: %v", claim, err)
		}
		if c.has("dba") != want {
			t.Errorf("%s: %v", claim, !want)
		}
		if (claims{access: &c}).has("dba") != want {
			t.Errorf("%s in an access token: %v", claim, !want)
		}
	}
}

func TestPermissionsAreKeptForAShortTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPermissions("https://api.example.com")
		q := question{"session", "instance"}
		p.keep(q, Manage)
		time.Sleep(permissionTime - time.Nanosecond)
		if a, ok := p.known(q); a != Manage || !ok {
			t.Errorf("%v, %v before its time", a, ok)
		}
		if _, ok := p.known(question{"another session", "instance"}); ok {
			t.Error("somebody else has the same permission")
		}
		time.Sleep(time.Nanosecond)
		if _, ok := p.known(q); ok {
			t.Error("the permission holds for longer than its time")
		}
		for i := range 3 * maxPermissions {
			p.keep(question{"session", fmt.Sprint(i)}, Read)
			time.Sleep(time.Millisecond)
		}
		if len(p.kept) > maxPermissions {
			t.Errorf("%d permissions are kept", len(p.kept))
		}
		if a, ok := p.known(question{"session", fmt.Sprint(3*maxPermissions - 1)}); a != Read || !ok {
			t.Error("the last permission is not kept")
		}
	})
}

func TestLinkEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLinks(nil)
		first, second := l.sign(time.Now().Add(linkTime)), l.sign(time.Now().Add(linkTime))
		time.Sleep(linkTime - time.Millisecond)
		if !l.open() || !l.use(first) || l.use(first) {
			t.Error("a link does not hold once within its time")
		}
		time.Sleep(2 * time.Millisecond)
		if l.open() || l.use(second) || l.use(first) {
			t.Error("a link holds for longer than its time")
		}
	})
}

// Browsers take any return address that a cookie holds for a page of this dashboard.
func FuzzReturnAddress(f *testing.F) {
	for _, seed := range []string{"/dashboard/", "/dashboard/instances/a?b=c", "//evil", "/\\evil", "https://evil",
		"/dashboard/../..//evil", "/dashboard/\t//evil", "/dashboard/%0d%0a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if !returnable(address) {
			return
		}
		w := httptest.NewRecorder()
		redirect(w, address)
		request := httptest.NewRequest("GET", "http://broker.example.com/dashboard/sign-in/callback", nil)
		answer := w.Result()
		answer.Request = request
		to, err := answer.Location()
		if err != nil {
			return // no browser follows it either
		}
		if to.Host != "broker.example.com" || to.Scheme != "http" || strings.ContainsAny(answer.Header.Get("Location"), "\r\n") {
			t.Errorf("%q leads to %s", address, to)
		}
	})
}

func TestNavigation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, mode, accept string
		want                 bool
	}{
		{"GET", "navigate", "", true},
		{"HEAD", "", "text/html", true},
		{"GET", "", "text/html,*/*", true},
		{"GET", "", "*/*", false},
		{"GET", "cors", "text/html", false},
		{"GET", "", "text/event-stream", false},
		{"POST", "navigate", "text/html", false},
	} {
		r := httptest.NewRequest(tt.method, "/", nil)
		r.Header = http.Header{"Accept": {tt.accept}}
		if tt.mode != "" {
			r.Header.Set("Sec-Fetch-Mode", tt.mode)
		}
		if navigation(r) != tt.want {
			t.Errorf("%+v", tt)
		}
	}
}
