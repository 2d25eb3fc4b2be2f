package broker

import (
	"cmp"
	"encoding/json"
	"fmt"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// maxPlaceBytes limits the names of organizations and spaces: PostgreSQL has them in indexes.
const maxPlaceBytes = 256

// maxName is how many characters of a name from the context people see: Cloud Controller allows no more.
const maxName = 255

// name is one that nothing but people reads.
type name string

// MarshalText implements encoding.TextMarshaler.
func (n name) MarshalText() ([]byte, error) {
	characters := []rune(n)
	return []byte(string(characters[:min(len(characters), maxName)])), nil
}

// kept returns what the broker stores of the context of an instance: the fields that it uses. The rest may be large, or
// nothing that PostgreSQL can store.
func kept(context json.RawMessage) json.RawMessage {
	var c struct {
		Platform         string `json:"platform,omitempty"`
		OrganizationGUID string `json:"organization_guid,omitempty"`
		OrganizationName name   `json:"organization_name,omitempty"`
		SpaceGUID        string `json:"space_guid,omitempty"`
		SpaceName        name   `json:"space_name,omitempty"`
		Cluster          string `json:"clusterid,omitempty"`
		Namespace        string `json:"namespace,omitempty"`
		InstanceName     name   `json:"instance_name,omitempty"`
	}
	_ = json.Unmarshal(context, &c) // platforms may put anything there
	encoded, _ := json.Marshal(c)   // strings always encode
	return encoded
}

// user returns the organization and the space that use a binding, "" if the request does not say. If the instance is
// shared, Cloud Controller names the application's space in bind_resource, and the instance's organization and space in
// the context.
func user(d domain.BindDetails) (organization, space string) {
	var c struct {
		Organization string `json:"organization_guid"`
		Space        string `json:"space_guid"`
	}
	_ = json.Unmarshal(d.RawContext, &c) // platforms may put anything there
	if d.BindResource == nil || d.BindResource.SpaceGuid == "" || d.BindResource.SpaceGuid == c.Space {
		return c.Organization, c.Space
	}
	return "", d.BindResource.SpaceGuid
}

// where returns the organization and space of an instance. The specification requires both in the request body, from
// every platform. Platforms other than Cloud Foundry may send them only in the context, which is meant to replace them.
// OSB API 2.17, "Provisioning", "Body".
func where(d domain.ProvisionDetails) (organization, space string, err error) {
	var c struct {
		Platform     string `json:"platform"`
		Organization string `json:"organization_guid"`
		Space        string `json:"space_guid"`
	}
	_ = json.Unmarshal(d.RawContext, &c) // platforms may put anything there
	if c.Platform == "" || c.Platform == "cloudfoundry" {
		c.Organization, c.Space = "", ""
	}
	organization, space = cmp.Or(d.OrganizationGUID, c.Organization), cmp.Or(d.SpaceGUID, c.Space)
	for _, field := range []struct{ name, value string }{{"organization_guid", organization}, {"space_guid", space}} {
		if field.value == "" {
			return "", "", invalid(fmt.Sprintf("The request lacks the text %q. The platform has to send it in the body or, "+
				"other than Cloud Foundry, in the context object beside platform.", field.name))
		}
	}
	if len(organization) > maxPlaceBytes || len(space) > maxPlaceBytes {
		return "", "", invalid(fmt.Sprintf("The organization_guid and the space_guid must have at most %d bytes.",
			maxPlaceBytes))
	}
	return organization, space, nil
}
