package httpapi

import (
	"net/http"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// details is what brokerapi decodes a request body into.
type details interface {
	domain.DetailsWithRawParameters
	domain.DetailsWithRawContext
}

// route is one endpoint of the API. newDetails is nil where a request has no body.
type route struct {
	method, path string
	newDetails   func() details
}

const (
	instancePath = "/v2/service_instances/{instance_id}"
	bindingPath  = instancePath + "/service_bindings/{binding_id}"
)

var routes = []route{
	{method: "GET", path: "/v2/catalog"},
	{method: "GET", path: instancePath},
	{method: "GET", path: instancePath + "/last_operation"},
	{method: "PUT", path: instancePath, newDetails: func() details { return &domain.ProvisionDetails{} }},
	{method: "PATCH", path: instancePath, newDetails: func() details { return &domain.UpdateDetails{} }},
	{method: "DELETE", path: instancePath},
	{method: "GET", path: bindingPath},
	{method: "GET", path: bindingPath + "/last_operation"},
	{method: "PUT", path: bindingPath, newDetails: func() details { return &domain.BindDetails{} }},
	{method: "DELETE", path: bindingPath},
}

// newRouter checks a request as its route demands and passes it to the library. It routes before the library does
// because a middleware in front of the library's own routes knows neither ids nor body type.
func newRouter(library http.Handler, maxBodyBytes int64) http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes {
		h := library
		if rt.newDetails != nil {
			h = checkBody(rt.newDetails, maxBodyBytes)(h)
		}
		mux.Handle(rt.method+" "+rt.path, chain(h, noteRoute(rt.path), checkIDs, checkQuery))
	}
	return mux
}

// noteRoute lets the log and the metrics know the route: the outer request never learns its pattern.
func noteRoute(path string) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			callFrom(r.Context()).route = path
			next.ServeHTTP(w, r)
		})
	}
}
