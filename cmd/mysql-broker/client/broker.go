package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/user"
	"strconv"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
	"github.com/google/uuid"

	"mysql-broker/outbound"
)

const (
	platform         = "mysql-broker-client"
	apiVersion       = "2.17"
	requestTimeout   = time.Minute // as Cloud Controller's
	maxResponseBytes = 16 << 20
)

// broker sends requests to one service broker.
type broker struct {
	address  address
	identity string // X-Broker-API-Originating-Identity
	http     *http.Client
}

func newBroker(a address) *broker {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	who, _ := json.Marshal(map[string]string{"user_name": name}) // a map of strings always encodes
	return &broker{
		address:  a,
		identity: platform + " " + base64.StdEncoding.EncodeToString(who),
		http:     outbound.New(outbound.Options{URL: a.URL, Time: requestTimeout, Bytes: maxResponseBytes}),
	}
}

// refusal is an unsuccessful response.
type refusal struct {
	status      int
	description string
	body        []byte
}

func (r *refusal) Error() string {
	if r.status == http.StatusUnauthorized {
		return "the broker refuses the user name or password: set BROKER_USERNAME and BROKER_PASSWORD, " +
			"or work where \"mysql-broker dev\" was started"
	}
	if r.description != "" {
		return "Service broker error: " + r.description
	}
	return fmt.Sprintf("the service broker responded %d %s: %s", r.status, http.StatusText(r.status), r.body)
}

// response is a successful response.
type response struct {
	status     int
	body       []byte
	retryAfter time.Duration // 0 if the broker did not say
}

// send makes one request. A response other than 200, 201 or 202 is a *refusal.
func (b *broker) send(ctx context.Context, method, path string, query url.Values, body any) (*response, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.address.URL+path, payload)
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = query.Encode()
	req.SetBasicAuth(b.address.Username, b.address.Password)
	req.Header.Set("X-Broker-API-Version", apiVersion)
	req.Header.Set("X-Broker-API-Originating-Identity", b.identity)
	req.Header.Set("X-Broker-API-Request-Identity", uuid.NewString())
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := b.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the broker cannot be reached: %w", err)
	}
	defer res.Body.Close()
	return readResponse(res)
}

func readResponse(res *http.Response) (*response, error) {
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("the broker's response broke off: %w", err)
	}
	switch res.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return &response{res.StatusCode, body, time.Duration(seconds) * time.Second}, nil
	}
	r := &refusal{status: res.StatusCode, body: body}
	var said apiresponses.ErrorResponse
	if json.Unmarshal(body, &said) == nil {
		r.description = said.Description
	}
	return nil, r
}

func (a *response) decode(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("the broker's response is not the JSON that the specification asks for: %w", err)
	}
	return nil
}
