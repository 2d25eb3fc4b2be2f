package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
)

const (
	maxPollInterval = time.Second // shorter than a platform's, because a person waits
	minPollInterval = 50 * time.Millisecond
	maxSilence      = 10 * time.Minute
)

const (
	create = "create"
	update = "update"
	remove = "delete"
)

// operation is the last request to the broker for an instance or key.
type operation struct {
	Kind        string                    `json:"type"` // create, update or delete
	State       domain.LastOperationState `json:"state"`
	Description string                    `json:"description,omitempty"`
	Token       string                    `json:"operation,omitempty"` // "operation" in the broker's response
}

func (o operation) String() string { return o.Kind + " " + string(o.State) }

func begun(kind string) operation { return operation{Kind: kind, State: domain.InProgress} }

func (o *operation) fail(err error) {
	o.State, o.Description = domain.Failed, err.Error()
	if r, ok := errors.AsType[*refusal](err); ok && r.description != "" {
		o.Description = r.description
	}
}

// work is an operation on an instance or key, and how to store it.
type work struct {
	title  string // "Creating service instance db"
	path   string // of the instance or binding
	plan   plan   // the one it has before the operation
	op     *operation
	save   func() error
	refuse func() error // called instead of save if the broker has refused the request; or nil
}

// perform sends a request and waits until the operation has ended. It returns the response to the request. It saves the
// work before each step, so that another run of the client can continue.
func (s *session) perform(ctx context.Context, w work, method string, body any) (*response, error) {
	if err := w.save(); err != nil {
		return nil, err
	}
	s.progress.begin(w.title)
	a, err := s.ask(ctx, w, method, body)
	if err != nil {
		return nil, errors.Join(err, w.failed(err))
	}
	if a.status != http.StatusAccepted {
		w.op.State = domain.Succeeded
		return a, w.save()
	}
	var accepted apiresponses.AsyncBindResponse
	if err := a.decode(&accepted); err != nil {
		return nil, err
	}
	w.op.Token = accepted.OperationData
	if err := w.save(); err != nil {
		return nil, err
	}
	return a, errors.Join(s.await(ctx, w), w.save())
}

// ask only sends the request. Deleting something that does not exist is a success.
func (s *session) ask(ctx context.Context, w work, method string, body any) (*response, error) {
	query := url.Values{}
	if method == http.MethodDelete { // it has no body for the ids
		query = planQuery(w.plan)
	}
	query.Set("accepts_incomplete", "true")
	a, err := s.broker.send(ctx, method, w.path, query, body)
	if r, ok := errors.AsType[*refusal](err); ok && method == http.MethodDelete && r.status == http.StatusGone {
		return &response{status: http.StatusOK}, nil
	}
	return a, err
}

func (w work) failed(err error) error {
	w.op.fail(err)
	if r, ok := errors.AsType[*refusal](err); ok && w.refuse != nil && r.status >= 400 && r.status < 500 {
		return w.refuse()
	}
	return w.save()
}

// await polls until the operation has ended, and returns its error if it has failed. If all polls fail for maxSilence,
// it leaves the operation in progress.
func (s *session) await(ctx context.Context, w work) error {
	lastResponse := time.Now()
	for pace := minPollInterval; ; pace = min(2*pace, maxPollInterval) { // many operations end at once
		wait, responded, err := s.poll(ctx, w)
		if err != nil {
			return err
		}
		if responded {
			lastResponse = time.Now()
		}
		s.progress.show(w.op.Description)
		switch {
		case w.op.State == domain.Failed:
			return &refusal{status: http.StatusOK, description: cmp.Or(w.op.Description, w.op.String())}
		case w.op.State != domain.InProgress:
			return nil
		case time.Since(lastResponse) >= maxSilence:
			return fmt.Errorf("the broker has not reported the operation's state for %v: "+
				"`mysql-broker client services` asks again", maxSilence)
		}
		select {
		case <-time.After(min(wait, pace)):
		case <-ctx.Done():
			return errLeft
		}
	}
}

var errLeft = errors.New("interrupted; the broker continues: `mysql-broker client services` shows the state")

// poll polls once. It returns the time until the next poll, and whether the broker responded. It reads responses like
// Cloud Controller: 410 is the success of a delete, 400 a failure, and other errors are temporary.
func (s *session) poll(ctx context.Context, w work) (wait time.Duration, responded bool, err error) {
	query := planQuery(w.plan)
	if w.op.Token != "" {
		query.Set("operation", w.op.Token)
	}
	a, err := s.broker.send(ctx, http.MethodGet, w.path+"/last_operation", query, nil)
	if err != nil {
		return maxPollInterval, false, w.op.pollFailed(ctx, err)
	}
	var last apiresponses.LastOperationResponse
	if err := a.decode(&last); err != nil {
		return 0, false, err
	}
	w.op.State, w.op.Description = last.State, last.Description
	return min(cmp.Or(a.retryAfter, maxPollInterval), maxPollInterval), true, nil
}

// pollFailed returns an error only if polling cannot succeed any more.
func (o *operation) pollFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errLeft
	}
	r, refused := errors.AsType[*refusal](err)
	switch {
	case !refused:
		o.Description = err.Error()
	case r.status == http.StatusUnauthorized:
		return err
	case r.status == http.StatusGone && o.Kind == remove:
		o.State, o.Description = domain.Succeeded, ""
	case r.status == http.StatusBadRequest:
		o.fail(err)
	default:
		o.Description = err.Error()
	}
	return nil
}

func planQuery(p plan) url.Values {
	return url.Values{"service_id": {p.ServiceID}, "plan_id": {p.ID}}
}
