package httpapi

import (
	"net/http"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/handlers"
)

// details is a type into which brokerapi decodes a request body.
type details interface {
	domain.DetailsWithRawParameters
	domain.DetailsWithRawContext
}

// route is one endpoint of the API. newDetails is nil if a request has no body.
type route struct {
	method, path string
	newDetails   func() details
	handle       func(handlers.APIHandler, http.ResponseWriter, *http.Request)
}

const (
	catalogPath  = "/v2/catalog"
	instancePath = "/v2/service_instances/{instance_id}"
	bindingPath  = instancePath + "/service_bindings/{binding_id}"
)

var routes = []route{
	{"GET", instancePath, nil, handlers.APIHandler.GetInstance},
	{"GET", instancePath + "/last_operation", nil, handlers.APIHandler.LastOperation},
	{"PUT", instancePath, func() details { return &domain.ProvisionDetails{} }, handlers.APIHandler.Provision},
	{"PATCH", instancePath, func() details { return &domain.UpdateDetails{} }, handlers.APIHandler.Update},
	{"DELETE", instancePath, nil, handlers.APIHandler.Deprovision},
	{"GET", bindingPath, nil, handlers.APIHandler.GetBinding},
	{"GET", bindingPath + "/last_operation", nil, handlers.APIHandler.LastBindingOperation},
	{"PUT", bindingPath, func() details { return &domain.BindDetails{} }, bind},
	{"DELETE", bindingPath, nil, handlers.APIHandler.Unbind},
}

// newRouter checks a request by the rules of its route and passes it to the library's handler. The library's own router
// would repeat the work of these middlewares.
func newRouter(library handlers.APIHandler, catalog []byte) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+catalogPath, chain(respondWith(catalog), recordRoute(catalogPath), checkQuery))
	for _, rt := range routes {
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { rt.handle(library, w, r) })
		if rt.newDetails != nil {
			h = chain(h, checkBody(rt.newDetails))
		}
		mux.Handle(rt.method+" "+rt.path, chain(h, recordRoute(rt.path), checkIDs, checkQuery))
	}
	return mux
}

// recordRoute records the route for the log and the metrics, because the outer request does not have its pattern.
func recordRoute(path string) middleware {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		callFrom(r.Context()).route = path
		next.ServeHTTP(w, r)
	}
}
