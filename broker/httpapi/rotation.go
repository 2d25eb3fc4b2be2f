package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/handlers"
)

// unnamed replaces the ids that a request for a successor leaves out, because brokerapi refuses a request without ids.
const unnamed = "not named by a request for a successor"

// bind passes a bind request on. It keeps predecessor_binding_id, for which brokerapi has no field, for the adapter. A
// request that has it need not have a service_id and a plan_id. OSB API 2.17, "Request (Rotating a Service Binding)".
func bind(library handlers.APIHandler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // from memory: see checkBody
	if err != nil {
		refuse(w, r, http.StatusBadRequest, "body-unreadable", "The request body ended too early.")
		return
	}
	var rotation struct {
		Predecessor any    `json:"predecessor_binding_id"`
		ServiceID   string `json:"service_id"`
		PlanID      string `json:"plan_id"`
	}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(body, &rotation) != nil || json.Unmarshal(body, &fields) != nil {
		refuse(w, r, http.StatusBadRequest, "body-malformed", "The request body has a field of a wrong type.")
		return
	}
	predecessor, isText := rotation.Predecessor.(string)
	if rotation.Predecessor != nil && !isText {
		refuse(w, r, http.StatusBadRequest, "body-malformed",
			`The field "predecessor_binding_id" of the request body must be a string.`)
		return
	}
	if fault := idFault(predecessor); predecessor != "" && fault != "" {
		refuse(w, r, http.StatusBadRequest, "id-invalid", "The predecessor_binding_id "+fault+".")
		return
	}
	callFrom(r.Context()).predecessor = predecessor
	if predecessor != "" && (rotation.ServiceID == "" || rotation.PlanID == "") {
		for name, value := range map[string]string{"service_id": rotation.ServiceID, "plan_id": rotation.PlanID} {
			if value == "" {
				fields[name] = json.RawMessage(`"` + unnamed + `"`)
			}
		}
		if body, err = json.Marshal(fields); err != nil {
			refuse(w, r, http.StatusBadRequest, "body-malformed", "The request body is not one well-formed JSON document.")
			return
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	library.Bind(w, r)
}

// rotated adds the predecessor that bind has kept to the details of a bind request.
func rotated(ctx context.Context, d domain.BindDetails) BindDetails {
	details := BindDetails{BindDetails: d, Predecessor: callFrom(ctx).predecessor}
	for _, id := range []*string{&details.ServiceID, &details.PlanID} {
		if details.Predecessor != "" && *id == unnamed {
			*id = ""
		}
	}
	return details
}
