package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// attributes are those of an instance that the specification leaves to brokers.
type attributes struct {
	storage
	Bindings    int `json:"bindings"`
	MaxBindings int `json:"max_bindings"`
}

// storage is what an instance's data takes.
type storage struct {
	Bytes   int64  `json:"storage_bytes"`
	Quota   int64  `json:"storage_quota_bytes"`
	State   string `json:"storage_state"`
	Message string `json:"storage_message,omitempty"`
}

// String returns text for people: "12.3 of 100 MiB (12 %), ok"; or "" if the broker reports none.
func (s storage) String() string {
	if s.Quota == 0 {
		return ""
	}
	const mebibyte = 1 << 20
	return fmt.Sprintf("%.1f of %d MiB (%d %%), %s", float64(s.Bytes)/mebibyte, s.Quota/mebibyte, s.Bytes*100/s.Quota,
		s.State)
}

// bindings returns text for people, such as "3 of 10", or "" if the broker reports none.
func (a attributes) bindings() string {
	if a.MaxBindings == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", a.Bindings, a.MaxBindings)
}

// attributes fetches those of an instance. They are zero if the broker has none, or refuses, for example while the
// instance changes.
func (s *session) attributes(ctx context.Context, in *instance) (attributes, error) {
	a, err := s.broker.send(ctx, http.MethodGet, in.path(), url.Values{}, nil)
	if _, refused := errors.AsType[*refusal](err); refused {
		return attributes{}, nil
	}
	if err != nil {
		return attributes{}, err
	}
	var fetched struct {
		Metadata struct {
			Attributes attributes `json:"attributes"`
		} `json:"metadata"`
	}
	if err := a.decode(&fetched); err != nil {
		return attributes{}, err
	}
	return fetched.Metadata.Attributes, nil
}
