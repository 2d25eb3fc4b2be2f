package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	permissionTime = 30 * time.Second // for which an answer of Cloud Controller holds
	maxPermissions = 10_000           // that are kept, some 200 bytes each
)

// guid is what Cloud Controller calls instances by. Other platforms' ids may be anything, such as "..".
var guid = regexp.MustCompile(`^[0-9A-Za-z_-]{1,255}$`)

// permissions asks Cloud Controller what developers may see, and keeps the answers for a short time.
type permissions struct {
	url    string
	client *http.Client
	asking singleflight.Group // by question

	mu   sync.Mutex
	kept map[question]answer
}

type question struct{ sessionID, instanceID string }

type answer struct {
	access Access
	until  time.Time
}

func newPermissions(cloudController string) *permissions {
	return &permissions{url: cloudController, kept: map[question]answer{},
		client: &http.Client{Timeout: askTime, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token is for Cloud Controller
		}}}
}

// of tells what a developer may see of an instance, as Cloud Controller said at most permissionTime ago.
func (p *permissions) of(ctx context.Context, s session, instanceID string) (Access, error) {
	if !guid.MatchString(instanceID) {
		return None, nil
	}
	q := question{s.id, instanceID}
	if a, ok := p.known(q); ok {
		return a, nil
	}
	// All that ask the same at once wait for one answer, even if the first of them goes away.
	answered := p.asking.DoChan(q.sessionID+" "+q.instanceID, func() (any, error) {
		a, err := p.ask(context.WithoutCancel(ctx), s.AccessToken, instanceID)
		if err == nil {
			p.keep(q, a)
		}
		return a, err
	})
	select {
	case <-ctx.Done():
		return None, ctx.Err()
	case result := <-answered:
		if result.Err != nil {
			return None, fmt.Errorf("ask Cloud Controller for a permission: %w", result.Err)
		}
		return result.Val.(Access), nil
	}
}

// resourceNotFound is Cloud Controller's code of what is not there, or not for this person.
// https://v3-apidocs.cloudfoundry.org/#errors
const resourceNotFound = 10010

// ask asks Cloud Controller. Who may not even know of an instance gets a 404 there, and a token that was revoked a 401.
// A 404 of somebody else says nothing of the instance: a router's while Cloud Controller is away, or any server's that
// was mistaken for one.
// https://v3-apidocs.cloudfoundry.org/#get-permissions-for-a-managed-service-instance
func (p *permissions) ask(ctx context.Context, token, instanceID string) (Access, error) {
	var told struct {
		Manage, Read bool
		Errors       []struct{ Code int }
	}
	status, err := getJSON(ctx, p.client, p.url+"/v3/service_instances/"+url.PathEscape(instanceID)+"/permissions", token,
		&told)
	switch {
	case err != nil:
		return None, err
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return None, nil
	case status == http.StatusNotFound && len(told.Errors) > 0 && told.Errors[0].Code == resourceNotFound:
		return None, nil
	case status != http.StatusOK:
		return None, fmt.Errorf("it answered %d", status)
	case told.Manage:
		return Manage, nil
	case told.Read:
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
		for q, a := range p.kept {
			if now.After(a.until) {
				delete(p.kept, q)
			}
		}
	}
	if len(p.kept) >= maxPermissions {
		clear(p.kept)
	}
	p.kept[q] = answer{a, now.Add(permissionTime)}
}

// unreachable tells whether no answer came from a server at all.
func unreachable(err error) bool {
	_, failed := errors.AsType[*url.Error](err)
	return failed
}
