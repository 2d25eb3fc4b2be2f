package kubernetes

import (
	"bytes"
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
	requestTime = 30 * time.Second // for one request, with its answer
	attempts    = 4                // of a request that the API server cannot serve just now
	minPause    = 100 * time.Millisecond
	maxPause    = 5 * time.Second // between two of them, whatever Retry-After says

	// pageSize is how many objects a list has at once, so that neither end holds all of them.
	pageSize = 500

	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml" // JSON is YAML

	// fieldManager names the broker as the owner of the fields that it applies.
	// https://kubernetes.io/docs/reference/using-api/server-side-apply/
	fieldManager = "mysql-broker"
)

// client asks the API server of a cluster about one namespace.
type client struct {
	url       string // without a trailing slash
	namespace string
	http      *http.Client
	token     *tokenSource // nil where a client certificate says who asks
}

// path is where objects of a kind are, or one of them, such as "pods" and "d-1".
func (c *client) path(kind string, name ...string) string {
	group := "/api/v1"
	if kind == statefulSets {
		group = "/apis/apps/v1"
	}
	return strings.Join(append([]string{group + "/namespaces/" + c.namespace + "/" + kind}, name...), "/")
}

func (c *client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, "", nil, into)
}

func (c *client) create(ctx context.Context, path string, object, into any) error {
	return c.do(ctx, http.MethodPost, path, "application/json", object, into)
}

// apply makes an object what is described, whether or not it is there: fields that the broker applied before and that
// are left out now are removed, and those of others stay.
func (c *client) apply(ctx context.Context, path string, object, into any) error {
	query := url.Values{"fieldManager": {fieldManager}, "force": {"true"}}
	return c.do(ctx, http.MethodPatch, path+"?"+query.Encode(), applyPatch, object, into)
}

// merge changes the fields that are named, if the object has the named resourceVersion still.
func (c *client) merge(ctx context.Context, path string, change, into any) error {
	return c.do(ctx, http.MethodPatch, path, mergePatch, change, into)
}

// strategicMerge is merge for lists whose items have names.
func (c *client) strategicMerge(ctx context.Context, path string, change, into any) error {
	return c.do(ctx, http.MethodPatch, path, strategicPatch, change, into)
}

func (c *client) delete(ctx context.Context, path string, options deleteOptions) error {
	options.APIVersion, options.Kind = "v1", "DeleteOptions"
	return c.do(ctx, http.MethodDelete, path, "application/json", options, nil)
}

// listMetadata calls each with what is known of the objects of a kind that have these labels, without their contents.
func (c *client) listMetadata(ctx context.Context, kind, labels string, each func(metadata)) error {
	query := url.Values{"labelSelector": {labels}, "limit": {strconv.Itoa(pageSize)}}
	for {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []struct {
				Metadata metadata `json:"metadata"`
			} `json:"items"`
		}
		err := c.get(ctx, c.path(kind)+"?"+query.Encode(), &page)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			each(item.Metadata)
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// do sends a request until it is answered. Every request may be repeated: what it asks for is then done already.
func (c *client) do(ctx context.Context, method, path, contentType string, object, into any) error {
	var body []byte
	if object != nil {
		var err error
		if body, err = json.Marshal(object); err != nil {
			return err
		}
	}
	pause := minPause
	for attempt := 1; ; attempt++ {
		err := c.try(ctx, method, path, contentType, body, into)
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

func (c *client) try(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	status, err := c.send(ctx, method, path, contentType, body, into)
	if status == http.StatusUnauthorized && c.token != nil && c.token.renew() {
		_, err = c.send(ctx, method, path, contentType, body, into)
	}
	return err
}

func (c *client) send(ctx context.Context, method, path, contentType string, body []byte, into any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("User-Agent", fieldManager)
	request.Header.Set("Accept", accept(method, path))
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if c.token != nil {
		token, err := c.token.read()
		if err != nil {
			return 0, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask Kubernetes: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		return response.StatusCode, readStatus(method, request.URL.Path, response)
	}
	if into == nil {
		_, err = io.Copy(io.Discard, response.Body)
	} else {
		err = json.NewDecoder(response.Body).Decode(into)
	}
	if err != nil {
		return response.StatusCode, fmt.Errorf("read Kubernetes' answer to %s %s: %w", method, request.URL.Path, err)
	}
	return response.StatusCode, nil
}

// accept asks for lists without the contents of the objects.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
func accept(method, path string) string {
	if method == http.MethodGet && strings.Contains(path, "limit=") {
		return "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	return "application/json"
}
