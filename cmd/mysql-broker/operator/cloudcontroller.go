package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"mysql-broker/outbound"
	"mysql-broker/store"
)

const (
	// controllerTime limits one request to Cloud Controller, which asks the broker before it responds to an upgrade.
	controllerTime = 90 * time.Second
	// jobInterval is how often Cloud Controller is asked about an upgrade.
	jobInterval = 2 * time.Second
)

// errControllerBusy says that Cloud Controller has an operation in progress on the instance.
var errControllerBusy = errors.New("an operation is in progress on it")

// operationInProgress is the code of AsyncServiceInstanceOperationInProgress.
// https://github.com/cloudfoundry/cloud_controller_ng/blob/main/errors/v2.yml
const operationInProgress = 60016

// cloudController upgrades service instances through Cloud Controller.
// https://v3-apidocs.cloudfoundry.org/#update-a-service-instance
type cloudController struct {
	url    string
	client *http.Client    // sends the token of a client of UAA, and renews it
	has    map[string]bool // the instances of Cloud Foundry
}

// cloudController returns the platform of the instances that belong to Cloud Foundry, or nil if none does.
func (c *console) cloudController(ctx context.Context, due []store.ListedInstance) (*cloudController, error) {
	cc := &cloudController{url: c.cfg.CloudController.URL, has: map[string]bool{}}
	for _, i := range due {
		full, err := c.store.Instances.Get(ctx, i.ID)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read instance %q: %w", i.ID, err)
		}
		var of struct{ Platform string }
		if json.Unmarshal(full.Context, &of) == nil && of.Platform == "cloudfoundry" {
			cc.has[i.ID] = true
		}
	}
	if len(cc.has) == 0 {
		return nil, nil
	}
	login := c.cfg.CloudController
	if login.URL == "" || login.Client == "" {
		return nil, fmt.Errorf("%d of the instances belong to Cloud Foundry, which has to know their version: set "+
			"CLOUD_CONTROLLER_URL, CLOUD_CONTROLLER_CLIENT and CLOUD_CONTROLLER_CLIENT_SECRET, or upgrade them with cf",
			len(cc.has))
	}
	plain := outbound.New(outbound.Options{URL: login.URL, Time: controllerTime, Bytes: 1 << 20})
	var root struct {
		Links struct{ UAA struct{ Href string } }
	}
	cc.client = plain
	if _, err := cc.do(ctx, http.MethodGet, cc.url+"/", nil, &root); err != nil {
		return nil, err
	}
	uaa := clientcredentials.Config{ClientID: login.Client, ClientSecret: login.Secret,
		TokenURL: strings.TrimSuffix(root.Links.UAA.Href, "/") + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams}
	cc.client = uaa.Client(context.WithValue(ctx, oauth2.HTTPClient, plain))
	cc.client.Timeout, cc.client.CheckRedirect = plain.Timeout, plain.CheckRedirect
	return cc, nil
}

// upgrade has Cloud Controller upgrade an instance to a version of maintenance_info, and waits for the end.
func (cc *cloudController) upgrade(ctx context.Context, id, version string) error {
	body, _ := json.Marshal(map[string]any{"maintenance_info": map[string]string{"version": version}}) // always encodes
	job, err := cc.do(ctx, http.MethodPatch, cc.url+"/v3/service_instances/"+url.PathEscape(id), body, nil)
	if err != nil || job == "" { // without a job, it has ended
		return err
	}
	for {
		var state struct {
			State  string
			Errors controllerErrors
		}
		if _, err := cc.do(ctx, http.MethodGet, job, nil, &state); err != nil {
			return err
		}
		switch state.State {
		case "COMPLETE":
			return nil
		case "FAILED":
			return fmt.Errorf("upgrade through Cloud Controller: %w", state.Errors.err())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(jobInterval):
		}
	}
}

// do sends a request and decodes the response. location is the job that Cloud Controller has begun, "" for none.
func (cc *cloudController) do(ctx context.Context, method, address string, body []byte,
	v any) (location string, err error) {
	q, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := cc.client.Do(q)
	if err != nil {
		return "", fmt.Errorf("ask Cloud Controller: %w", err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return "", fmt.Errorf("read the response of Cloud Controller: %w", err)
	}
	if r.StatusCode >= http.StatusBadRequest {
		var refused struct{ Errors controllerErrors }
		_ = json.Unmarshal(raw, &refused) // a proxy may have answered
		return "", fmt.Errorf("ask Cloud Controller: %s %s: %s: %w", method, q.URL.Path, r.Status, refused.Errors.err())
	}
	if v != nil {
		if err := json.Unmarshal(raw, v); err != nil {
			return "", fmt.Errorf("read the response of Cloud Controller: %w", err)
		}
	}
	if r.StatusCode == http.StatusAccepted {
		job, err := r.Location()
		if err != nil || !strings.HasPrefix(job.Path, "/") {
			return "", fmt.Errorf("read the response of Cloud Controller: it names no job: %w", err)
		}
		location = cc.url + job.EscapedPath() // the token goes nowhere else
	}
	return location, nil
}

// controllerErrors are the errors in a response of Cloud Controller.
type controllerErrors []struct {
	Code   int
	Detail string
}

func (e controllerErrors) err() error {
	all := make([]error, len(e))
	for n, one := range e {
		if all[n] = errors.New(one.Detail); one.Code == operationInProgress {
			all[n] = errControllerBusy
		}
	}
	return cmp.Or(errors.Join(all...), errNoReason)
}

var errNoReason = errors.New("without a reason")
