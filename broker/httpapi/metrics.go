package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests     *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	failedLogins prometheus.Counter
}

// newMetrics returns the request metrics, registered with reg.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mysql_broker_http_requests_total",
			Help: "Requests to the Open Service Broker API that were answered. The status is \"client left\" where the " +
				"client had closed the connection, or its half, before.",
		}, []string{"route", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mysql_broker_http_request_duration_seconds",
			Help: "Seconds from a request's headers to the end of its response.",
			// Platforms give up after 60 s, and a synchronous operation may use most of that.
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60},
		}, []string{"route", "method"}),
		failedLogins: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mysql_broker_failed_logins_total",
			Help: "Requests with a wrong user name or password, except those refused unread after too many of them.",
		}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.failedLogins} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// clientLeft replaces the status of a response that perhaps nobody has read.
const clientLeft = "client left"

func (m *metrics) count(method string, c *call, elapsed time.Duration) {
	method = methodLabel(method)
	status := strconv.Itoa(c.status)
	if c.leftEarly {
		status = clientLeft
	}
	m.requests.WithLabelValues(c.route, method, status).Inc()
	m.duration.WithLabelValues(c.route, method).Observe(elapsed.Seconds())
}

var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodPost,
	http.MethodOptions,
}

// methodLabel prevents clients from creating a time series for each method that they invent.
func methodLabel(method string) string {
	if slices.Contains(knownMethods, method) {
		return method
	}
	return "other"
}
