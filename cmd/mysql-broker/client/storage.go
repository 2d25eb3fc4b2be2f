package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// storage is what a broker tells of an instance's storage, in the attributes that are its own to choose.
type storage struct {
	Bytes   int64  `json:"storage_bytes"`
	Quota   int64  `json:"storage_quota_bytes"`
	State   string `json:"storage_state"`
	Message string `json:"storage_message,omitempty"`
}

// String is for people: "12.3 of 100 MiB (12 %), ok".
func (s *storage) String() string {
	if s == nil {
		return ""
	}
	const mebibyte = 1 << 20
	return fmt.Sprintf("%.1f of %d MiB (%d %%), %s", float64(s.Bytes)/mebibyte, s.Quota/mebibyte, s.Bytes*100/s.Quota,
		s.State)
}

// storage asks for an instance's. It is nil where the broker tells none, or refuses to: for an instance that is being
// changed, for example.
func (s *session) storage(ctx context.Context, in *instance) (*storage, error) {
	a, err := s.broker.send(ctx, http.MethodGet, in.path(), url.Values{}, nil)
	if _, refused := errors.AsType[*refusal](err); refused {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var told struct {
		Metadata struct {
			Attributes storage `json:"attributes"`
		} `json:"metadata"`
	}
	if err := a.decode(&told); err != nil {
		return nil, err
	}
	if found := told.Metadata.Attributes; found.Quota > 0 {
		return &found, nil
	}
	return nil, nil
}
