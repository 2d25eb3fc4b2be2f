package kubernetes

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
	"strconv"
	"strings"
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
	pageSize, fullPage = 500, 250

	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml" // JSON is YAML

	// fieldManager names the broker as the owner of the fields that it applies.
	// https://kubernetes.io/docs/reference/using-api/server-side-apply/
	fieldManager = "mysql-broker"
)

// client sends requests about one namespace to the API server of a cluster.
type client struct {
	url       string // without a trailing slash
	namespace string
	http      *http.Client
	token     *tokenSource // nil if the broker logs in with a client certificate
}

// path returns the path of all objects of a kind, or of one of them, such as "pods" and "d-1".
func (c *client) path(kind string, name ...string) string {
	group := "/api/v1"
	switch kind {
	case statefulSets:
		group = "/apis/apps/v1"
	case budgets:
		group = "/apis/policy/v1"
	}
	return strings.Join(append([]string{group + "/namespaces/" + c.namespace + "/" + kind}, name...), "/")
}

func (c *client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, call{method: http.MethodGet, path: path}, into)
}

func (c *client) create(ctx context.Context, path string, object, into any) error {
	return c.do(ctx, call{method: http.MethodPost, path: path, contentType: "application/json", body: object}, into)
}

// apply creates or changes an object. It removes fields that the broker applied before and now leaves out, and keeps
// the fields of others.
func (c *client) apply(ctx context.Context, path string, object, into any) error {
	query := url.Values{"fieldManager": {fieldManager}, "force": {"true"}}
	return c.do(ctx, call{method: http.MethodPatch, path: path + "?" + query.Encode(), contentType: applyPatch,
		body: object}, into)
}

// tryApply has the API server check what apply would do, without doing it.
func (c *client) tryApply(ctx context.Context, path string, object any) error {
	query := url.Values{"fieldManager": {fieldManager}, "force": {"true"}, "dryRun": {"All"}}
	return c.do(ctx, call{method: http.MethodPatch, path: path + "?" + query.Encode(), contentType: applyPatch,
		body: object}, nil)
}

// merge changes the fields in the patch. If the patch has a resourceVersion, the object must still have it.
func (c *client) merge(ctx context.Context, path string, change, into any) error {
	return c.do(ctx, call{method: http.MethodPatch, path: path, contentType: mergePatch, body: change}, into)
}

// strategicMerge is merge for lists whose items have names.
func (c *client) strategicMerge(ctx context.Context, path string, change, into any) error {
	return c.do(ctx, call{method: http.MethodPatch, path: path, contentType: strategicPatch, body: change}, into)
}

func (c *client) delete(ctx context.Context, path string, options deleteOptions) error {
	options.APIVersion, options.Kind = "v1", "DeleteOptions"
	return c.do(ctx, call{method: http.MethodDelete, path: path, contentType: "application/json", body: options}, nil)
}

// listMetadata calls each with the metadata of the objects of a kind that have these labels.
func (c *client) listMetadata(ctx context.Context, kind, labels string, each func(metadata)) error {
	_, err := list(ctx, c, kind, labels, pageSize, func(o partialObject) error {
		each(o.Metadata)
		return nil
	})
	return err
}

// partialObject is an object without its content. Lists of them are smaller.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
type partialObject struct {
	Metadata metadata `json:"metadata"`
}

// list calls each with the objects of a kind that have these labels. It reads them in pages, and returns the version
// from which a watch sees all later changes.
func list[T any](ctx context.Context, c *client, kind, labels string, page int,
	each func(T) error) (version string, err error) {
	query := url.Values{"labelSelector": {labels}, "limit": {strconv.Itoa(page)}}
	accept := "application/json"
	if _, partial := any(*new(T)).(partialObject); partial {
		accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	for {
		found := objects[T]{}
		if err := c.do(ctx, call{method: http.MethodGet, path: c.path(kind) + "?" + query.Encode(), accept: accept},
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

// call is a request to the API server.
type call struct {
	method, path string // the path with its query
	accept       string // "" for application/json
	contentType  string // of body
	body         any    // nil for none
}

// do sends a request until it is answered. Every request may be repeated: if it was carried out before, the repetition
// changes nothing.
func (c *client) do(ctx context.Context, request call, into any) error {
	var body []byte
	if request.body != nil {
		var err error
		if body, err = json.Marshal(request.body); err != nil {
			return err
		}
	}
	pause := minPause
	for attempt := 1; ; attempt++ {
		err := c.try(ctx, request, body, into)
		if attempt == attempts || !passes(err) || ctx.Err() != nil {
			return err
		}
		if status, ok := errors.AsType[*statusError](err); ok && status.retryAfter > 0 {
			pause = status.retryAfter
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(min(pause, maxPause)):
		}
		pause *= 4
	}
}

// try sends a request once. If the API server refuses the token and there is a file with a new one, it tries again.
func (c *client) try(ctx context.Context, request call, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	response, err := c.send(ctx, request, body)
	if isStatus(err, http.StatusUnauthorized) && c.token != nil && c.token.renew() {
		response, err = c.send(ctx, request, body)
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

// send returns a response with a status of success, whose body the caller closes.
func (c *client) send(ctx context.Context, request call, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, request.method, c.url+request.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", fieldManager)
	r.Header.Set("Accept", cmp.Or(request.accept, "application/json"))
	if request.contentType != "" {
		r.Header.Set("Content-Type", request.contentType)
	}
	if c.token != nil {
		token, err := c.token.read()
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask Kubernetes: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, readStatus(request.String(), response)
	}
	return response, nil
}

// String is the method and the path without its query.
func (c call) String() string {
	path, _, _ := strings.Cut(c.path, "?")
	return c.method + " " + path
}
