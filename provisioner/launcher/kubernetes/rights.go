package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// rights lists everything that the launcher does in its namespace. deploy/kubernetes/launcher grants these rights.
var rights = []right{
	{"", api.Secrets, "get list create patch delete"},
	{"", api.Claims, "get create patch delete"},
	{"", api.Services, "get create patch"},
	{"apps", api.StatefulSets, "create patch"},
	{"", api.Pods, "get list watch delete"},
	{"", "pods/resize", "patch"},
	{"", api.Events, "list"},
}

type right struct{ group, resource, verbs string }

// accessReview asks the API server whether the broker may do something.
// https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/self-subject-access-review-v1/
type accessReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		ResourceAttributes struct {
			Namespace   string `json:"namespace"`
			Verb        string `json:"verb"`
			Group       string `json:"group"`
			Resource    string `json:"resource"`
			Subresource string `json:"subresource,omitempty"`
		} `json:"resourceAttributes"`
	} `json:"spec"`
	Status struct {
		Allowed bool `json:"allowed"`
	} `json:"status,omitzero"`
}

// MissingRights implements launcher.Checker.
func (l *Launcher) MissingRights(ctx context.Context) (string, error) {
	var missing []string
	for _, r := range rights {
		for verb := range strings.FieldsSeq(r.verbs) {
			review := accessReview{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
			a := &review.Spec.ResourceAttributes
			a.Namespace, a.Verb, a.Group = l.cfg.Namespace, verb, r.group
			a.Resource, a.Subresource, _ = strings.Cut(r.resource, "/")
			if err := l.secrets.api.Do(ctx, api.Call{Method: http.MethodPost, ContentType: "application/json", Body: review,
				Path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}, &review); err != nil {
				return "", fmt.Errorf("ask which rights the broker has: %w", err)
			}
			if !review.Status.Allowed {
				missing = append(missing, verb+" "+r.resource)
			}
		}
	}
	if len(missing) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the broker lacks rights in the namespace %s: it may not %s; apply deploy/kubernetes/launcher "+
		"there", l.cfg.Namespace, strings.Join(missing, ", ")), nil
}

// Advice implements launcher.Checker.
func (l *Launcher) Advice() string {
	var tags []string
	for _, image := range l.cfg.Images {
		if !strings.Contains(image.Name, "@sha256:") {
			tags = append(tags, image.Name)
		}
	}
	if len(tags) == 0 {
		return ""
	}
	return fmt.Sprintf("name images by digest, as IMAGE@sha256:…, in %s: once the tag of %s is moved, servers run "+
		"another program when their pods start again", l.cfg.variable("LAUNCHER_IMAGES"), strings.Join(tags, ", "))
}

// variable is the name by which operators set it.
func (c Config) variable(name string) string {
	if c.name == nil {
		return name
	}
	return c.name(name)
}

// trialOwner stands for the UID of the Secret that a trial does not create.
const trialOwner = "00000000-0000-4000-8000-000000000000"

// Try implements launcher.Checker. The API server checks the objects of the server, also against quotas and policies,
// and stores none of them. It does not check whether a storage class exists or a node fits.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
func (l *Launcher) Try(ctx context.Context, spec launcher.Spec) (err error) {
	defer func() { err = explain(err) }()
	image, err := l.cfg.offered(spec)
	if err != nil {
		return err
	}
	name, err := objectName(spec.ID)
	if err != nil {
		return err
	}
	s := l.cfg.newServer(spec.ID, name, spec, image)
	var secret api.Secret
	if err := l.secrets.api.TryApply(ctx, l.secrets.api.Path(api.Secrets, name), s.secret, &secret); err != nil {
		return err
	}
	if secret.Metadata.Name != "" { // else a webhook cannot be tried
		if err := s.expectLabels(api.Secrets, secret.Metadata); err != nil {
			return err
		}
	}
	s.secret.Metadata.UID = trialOwner
	for _, o := range []struct {
		kind   string
		object any
	}{{api.Claims, claimOf(s)}, {api.Services, l.cfg.serviceOf(s)}, {api.StatefulSets, l.cfg.statefulSetOf(s)}} {
		if err := l.secrets.api.TryApply(ctx, l.secrets.api.Path(o.kind, name), o.object, nil); err != nil {
			return err
		}
	}
	return nil
}
