package signin

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	permissionTime = 30 * time.Second // how long a response of Cloud Controller is valid
	maxPermissions = 10_000           // stored at a time, about 200 bytes each
)

// guid is the form of Cloud Controller's instance ids. Ids of other platforms can be anything, such as "..".
var guid = regexp.MustCompile(`^[0-9A-Za-z_-]{1,255}$`)

// permissions asks Cloud Controller what developers may see, and caches the responses for a short time.
type permissions struct {
	url    string
	client *http.Client
	asking singleflight.Group // by question

	mu   sync.Mutex
	kept map[question]decision
}

type question struct{ sessionID, instanceID string }

type decision struct {
	access Access
	until  time.Time
}

func newPermissions(cloudController string) *permissions {
	return &permissions{url: cloudController, kept: map[question]decision{}, client: newClient(cloudController)}
}

// of returns what a developer may see of an instance, from a response of Cloud Controller that is at most
// permissionTime old.
func (p *permissions) of(ctx context.Context, s session, instanceID string) (Access, error) {
	if !guid.MatchString(instanceID) {
		return None, nil
	}
	q := question{s.id, instanceID}
	if a, ok := p.known(q); ok {
		return a, nil
	}
	// Concurrent requests with the same question wait for one response, even if the first of them is canceled.
	asked := p.asking.DoChan(q.sessionID+" "+q.instanceID, func() (any, error) {
		a, err := p.ask(context.WithoutCancel(ctx), s.AccessToken, instanceID)
		if err == nil {
			p.keep(q, a)
		}
		return a, err
	})
	select {
	case <-ctx.Done():
		return None, ctx.Err()
	case result := <-asked:
		if result.Err != nil {
			return None, fmt.Errorf("ask Cloud Controller for a permission: %w", result.Err)
		}
		return result.Val.(Access), nil
	}
}

// resourceNotFound is Cloud Controller's code for an object that does not exist, or that this person may not see.
// https://v3-apidocs.cloudfoundry.org/#errors
const resourceNotFound = 10010

// ask asks Cloud Controller. It responds with 404 if the person may not know of the instance, and with 401 to a revoked
// token. A 404 from another server says nothing about the instance: a router sends it while Cloud Controller is down,
// and so does any wrong server.
// https://v3-apidocs.cloudfoundry.org/#get-permissions-for-a-managed-service-instance
func (p *permissions) ask(ctx context.Context, token, instanceID string) (Access, error) {
	var response struct {
		Manage, Read bool
		Errors       []struct{ Code int }
	}
	status, err := getJSON(ctx, p.client, p.url+"/v3/service_instances/"+url.PathEscape(instanceID)+"/permissions", token,
		&response)
	switch {
	case err != nil:
		return None, err
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return None, nil
	case status == http.StatusNotFound && len(response.Errors) > 0 && response.Errors[0].Code == resourceNotFound:
		return None, nil
	case status != http.StatusOK:
		return None, fmt.Errorf("it answered %d", status)
	case response.Manage:
		return Manage, nil
	case response.Read:
		return Read, nil
	}
	return None, nil
}

func (p *permissions) known(q question) (Access, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.kept[q]
	return a.access, ok && time.Now().Before(a.until)
}

func (p *permissions) keep(q question, a Access) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if len(p.kept) >= maxPermissions {
		maps.DeleteFunc(p.kept, func(_ question, a decision) bool { return now.After(a.until) })
	}
	if len(p.kept) >= maxPermissions {
		clear(p.kept)
	}
	p.kept[q] = decision{a, now.Add(permissionTime)}
}
