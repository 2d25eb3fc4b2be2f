// Package api sends requests to the API server of a Kubernetes cluster: a client, the objects, logins and errors.
package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	requestTime = 30 * time.Second // for one request and its response
	longestTime = 6 * time.Minute  // for a watch: it lasts watchTime
	maxResponse = 64 << 20         // bytes; lists are read item by item
	attempts    = 4                // of a request, while the API server is busy or cannot be reached
	minPause    = 100 * time.Millisecond
	maxPause    = 5 * time.Second // between two of them, whatever Retry-After says

	// pageSize and fullPage limit how many objects are in one response to a list, to save memory on both sides. The latter
	// is for whole objects: a pod has 10 KiB.
	pageSize, FullPage = 500, 250

	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml" // JSON is YAML

	// fieldManager names the broker as the owner of the fields that it applies.
	// https://kubernetes.io/docs/reference/using-api/server-side-apply/
	fieldManager = "mysql-broker"
	applying     = "?force=true&fieldManager=" + fieldManager
)

// Client sends requests about one namespace to the API server of a cluster.
type Client struct {
	url       string // without a trailing slash
	namespace string
	ca        source
	token     *source           // nil if the broker logs in with a client certificate
	login     []tls.Certificate // that one
	dated     atomic.Pointer[date]

	mu      sync.Mutex
	http    *http.Client
	trusted string // the CA that http trusts
}

// date is what a response said that the time is, and when it said so.
type date struct{ said, read time.Time }

// Now returns the time by the API server's clock, from the Date of its last response. Like the times in its objects,
// that has whole seconds, so Now may be a second late. Before the first response it is the time of this host.
func (c *Client) Now() time.Time {
	last := c.dated.Load()
	if last == nil {
		return time.Now()
	}
	return last.said.Add(time.Since(last.read)) // if this host's clock is set meanwhile, that changes nothing
}

// Since returns how long ago the time of an object is. The clock of this host may be wrong.
func (c *Client) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Close closes connections that are not in use.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.http.CloseIdleConnections()
}

// Path returns the path of all objects of a kind, or of one of them, such as "pods" and "d-1".
func (c *Client) Path(kind string, name ...string) string {
	group := "/api/v1"
	if kind == StatefulSets {
		group = "/apis/apps/v1"
	}
	return strings.Join(append([]string{group + "/namespaces/" + c.namespace + "/" + kind}, name...), "/")
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.Do(ctx, Call{Method: http.MethodGet, Path: path}, into)
}

// Create creates an object.
func (c *Client) Create(ctx context.Context, path string, object, into any) error {
	return c.Do(ctx, Call{Method: http.MethodPost, Path: path, ContentType: "application/json", Body: object}, into)
}

// Apply creates or changes an object. It removes fields that the broker applied before and now leaves out, and keeps
// the fields of others.
func (c *Client) Apply(ctx context.Context, path string, object, into any) error {
	return c.Do(ctx, Call{Method: http.MethodPatch, Path: path + applying, ContentType: applyPatch, Body: object}, into)
}

// TryApply has the API server check what Apply would do, without doing it. It ignores webhooks that do not support dry
// runs, and leaves into as it is if there is one.
func (c *Client) TryApply(ctx context.Context, path string, object, into any) error {
	return tried(c.Do(ctx, Call{Method: http.MethodPatch, Path: path + applying + "&dryRun=All", ContentType: applyPatch,
		Body: object}, into))
}

// Merge changes the fields in the patch.
func (c *Client) Merge(ctx context.Context, path string, change, into any) error {
	return c.Do(ctx, Call{Method: http.MethodPatch, Path: path, ContentType: mergePatch, Body: change}, into)
}

// Edit is a step of a JSON patch: https://datatracker.ietf.org/doc/html/rfc6902
type Edit struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Edit makes all edits, or none if a test fails, which is a 422. Unlike a resourceVersion, a test fails only for
// changes of what it tests.
func (c *Client) Edit(ctx context.Context, path string, edits []Edit, into any) error {
	return c.Do(ctx, Call{Method: http.MethodPatch, Path: path, ContentType: jsonPatch, Body: edits}, into)
}

// StrategicMerge is merge for lists whose items have names.
func (c *Client) StrategicMerge(ctx context.Context, path string, change, into any) error {
	return c.Do(ctx, Call{Method: http.MethodPatch, Path: path, ContentType: strategicPatch, Body: change}, into)
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, path string, options DeleteOptions) error {
	options.APIVersion, options.Kind = "v1", "DeleteOptions"
	return c.Do(ctx, Call{Method: http.MethodDelete, Path: path, ContentType: "application/json", Body: options}, nil)
}

// TryDelete is TryApply for Delete. It returns no error if there is no such object.
func (c *Client) TryDelete(ctx context.Context, path string) error {
	err := tried(c.Delete(ctx, path, DeleteOptions{DryRun: []string{"All"}}))
	if IsNotFound(err) {
		return nil
	}
	return err
}

// tried leaves out the error for a webhook that does not support dry runs.
func tried(err error) error {
	if e, ok := errors.AsType[*StatusError](err); ok && e.Code == http.StatusBadRequest &&
		strings.Contains(e.Message, "does not support dry run") {
		return nil
	}
	return err
}

// ListMetadata calls each with the metadata of the objects of a kind that have these labels.
func (c *Client) ListMetadata(ctx context.Context, kind, labels string, each func(Metadata)) error {
	_, err := List(ctx, c, kind, labels, pageSize, func(o partialObject) error {
		each(o.Metadata)
		return nil
	})
	return err
}

// partialObject is an object without its content. Lists of them are smaller.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
type partialObject struct {
	Metadata Metadata `json:"metadata"`
}

// List calls each with the objects of a kind that have these labels. It reads them in pages, and returns the version
// from which a watch sees all later changes.
func List[T any](ctx context.Context, c *Client, kind, labels string, page int,
	each func(T) error) (version string, err error) {
	query := url.Values{"labelSelector": {labels}, "limit": {strconv.Itoa(page)}}
	accept := "application/json"
	if _, partial := any(*new(T)).(partialObject); partial {
		accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	for {
		found := objects[T]{}
		if err := c.Do(ctx, Call{Method: http.MethodGet, Path: c.Path(kind) + "?" + query.Encode(), accept: accept},
			&found); err != nil {
			return "", err
		}
		for _, item := range found.items {
			if err := each(item); err != nil {
				return "", err
			}
		}
		if found.metadata.Continue == "" {
			return found.metadata.ResourceVersion, nil
		}
		query.Set("continue", found.metadata.Continue)
	}
}

// objects is a page of a list.
type objects[T any] struct {
	metadata struct {
		Continue        string `json:"continue"`
		ResourceVersion string `json:"resourceVersion"`
	}
	items []T
}

// read decodes the items one by one: json.Decoder keeps the text of what it decodes in memory, and the text of a page
// is many times larger than what the launcher reads of it.
func (o *objects[T]) read(from *json.Decoder) error {
	*o = objects[T]{}
	if _, err := from.Token(); err != nil { // "{"
		return err
	}
	for from.More() {
		key, err := from.Token()
		if err != nil {
			return err
		}
		switch key {
		case "metadata":
			err = from.Decode(&o.metadata)
		case "items":
			err = o.readItems(from)
		default:
			err = from.Decode(&json.RawMessage{})
		}
		if err != nil {
			return err
		}
	}
	_, err := from.Token() // "}"
	return err
}

func (o *objects[T]) readItems(from *json.Decoder) error {
	start, err := from.Token()
	if err != nil || start == nil { // null if there are none
		return err
	}
	for from.More() {
		var item T
		if err := from.Decode(&item); err != nil {
			return err
		}
		o.items = append(o.items, item)
	}
	_, err = from.Token() // "]"
	return err
}

// Call is a request to the API server.
type Call struct {
	Method, Path string // the path with its query
	accept       string // "" for application/json
	ContentType  string // of body
	Body         any    // nil for none
}

// Do sends a request until it is answered. Every request may be repeated: if it was carried out before, the repetition
// changes nothing.
func (c *Client) Do(ctx context.Context, request Call, into any) error {
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = json.Marshal(request.Body); err != nil {
			return err
		}
	}
	pause, refused := minPause, error(nil)
	for attempt := 1; ; attempt++ {
		err := c.try(ctx, request, body, into)
		if err != nil && ctx.Err() != nil {
			if cause := context.Cause(ctx); !errors.Is(err, cause) { // net/http leaves it out
				err = fmt.Errorf("%w: %w", err, cause)
			}
			return errors.Join(refused, err) // that is why the time is over
		}
		if attempt == attempts || !passes(err) {
			return err
		}
		if status, ok := errors.AsType[*StatusError](err); ok {
			pause, refused = max(pause, status.retryAfter), status
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(min(pause, maxPause)):
		}
		pause *= 4
	}
}

// try sends a request once. If the API server refuses the token, or has a certificate of another CA, and a file has a
// new one, it tries again.
func (c *Client) try(ctx context.Context, request Call, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	response, err := c.Send(ctx, request, body)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	if unverified && c.ca.renew() {
		response, err = c.Send(ctx, request, body)
	}
	if IsStatus(err, http.StatusUnauthorized) && c.token != nil && c.token.renew() {
		response, err = c.Send(ctx, request, body)
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch into := into.(type) {
	case nil:
		_, err = io.Copy(io.Discard, response.Body)
	case interface{ read(*json.Decoder) error }:
		err = into.read(json.NewDecoder(response.Body))
	default:
		err = json.NewDecoder(response.Body).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("read Kubernetes' response to %s: %w", request, err)
	}
	return nil
}

// Send returns a response with a status of success, whose body the caller closes.
func (c *Client) Send(ctx context.Context, request Call, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, request.Method, c.url+request.Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", fieldManager)
	r.Header.Set("Accept", cmp.Or(request.accept, "application/json"))
	if request.ContentType != "" {
		r.Header.Set("Content-Type", request.ContentType)
	}
	if c.token != nil {
		token, err := c.token.read()
		if err != nil {
			return nil, fmt.Errorf("the token for Kubernetes: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask Kubernetes: %w", err)
	}
	if said, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		c.dated.Store(&date{said, time.Now()})
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, readStatus(request.String(), response)
	}
	return response, nil
}

// String is the method and the path without its query.
func (c Call) String() string {
	path, _, _ := strings.Cut(c.Path, "?")
	return c.Method + " " + path
}
