package catalog

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"mysql-broker/provisioner/plan"
)

// placementKeys are those of the key "broker" that say where a cluster runs a dedicated server.
var placementKeys = []string{"node", "storage_class", "tolerations", "labels", "annotations"}

// readPlacement returns nil if a plan has none of the keys.
func readPlacement(o *object) *plan.Placement {
	placed := false
	for _, key := range placementKeys {
		placed = o.has(key) || placed
	}
	if !placed {
		return nil
	}
	p := &plan.Placement{Labels: o.labels("labels", validLabel), Annotations: o.labels("annotations", nil)}
	node := "any"
	choose(o, "node", &node, "own", "any")
	p.OwnNode = node == "own"
	keep(o.optional("storage_class"), &p.StorageClass)
	if p.StorageClass != "" && !validClass.MatchString(p.StorageClass) {
		o.reject("storage_class", "the name of a storage class: lower-case letters, digits, dashes and dots")
	}
	if o.has("tolerations") {
		for _, item := range o.objects("tolerations", "the toleration") {
			p.Tolerations = append(p.Tolerations, readToleration(item))
		}
	}
	return p
}

// readToleration reads a toleration by Kubernetes' rules.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#scheduling
func readToleration(o *object) plan.Toleration {
	t := plan.Toleration{Operator: "Equal"}
	choose(o, "operator", &t.Operator, "Equal", "Exists")
	choose(o, "effect", &t.Effect, "NoSchedule", "PreferNoSchedule", "NoExecute")
	if t.Operator != "Exists" {
		o.require("key")
	}
	keep(o.optional("key"), &t.Key)
	if t.Key != "" && !validKey(t.Key) {
		o.reject("key", "the key of a taint, such as example.com/mysql")
	}
	if value := o.optional("value"); value != nil {
		t.Value = *value
		switch {
		case t.Operator == "Exists":
			o.reject("value", "left out: the operator is Exists")
		case !validLabel.MatchString(t.Value):
			o.reject("value", "up to 63 letters, digits, dashes, underscores and dots")
		}
	}
	o.close()
	return t
}

// Names and values in Kubernetes.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
var (
	validLabel  = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$`)
	validClass  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	reservedFor = []string{"mysql-broker", "app.kubernetes.io", "kubernetes.io", "k8s.io"}
)

// validKey reports whether key is the key of a label: a name, with or without a domain before it.
func validKey(key string) bool {
	domain, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		domain, name = "", key
	}
	return name != "" && validLabel.MatchString(name) && (!prefixed || validClass.MatchString(domain))
}

// labels returns the value of an optional key, a mapping of labels. values is nil if their values may be any text.
func (o *object) labels(key string, values *regexp.Regexp) map[string]string {
	content, ok := o.object(key)
	if !ok {
		return nil
	}
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(content.fields)) {
		domain, _, _ := strings.Cut(name, "/")
		value := get[string](content, name, "a string", nil)
		switch {
		case !validKey(name):
			content.reject(name, "a key such as team or example.com/team")
		case strings.Contains(name, "/") && slices.ContainsFunc(reservedFor, func(r string) bool {
			return domain == r || strings.HasSuffix(domain, "."+r)
		}):
			content.reject(name, "left out: keys of "+domain+" are reserved")
		case value != nil && values != nil && !values.MatchString(*value):
			content.reject(name, "up to 63 letters, digits, dashes, underscores and dots")
		case value != nil:
			all[name] = *value
		}
	}
	return all
}
