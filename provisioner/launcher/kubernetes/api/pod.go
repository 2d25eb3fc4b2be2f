package api

import (
	"slices"
	"strings"
	"time"
)

// Fetching reports whether the node has not got a container's image.
func (c ContainerStatus) Fetching() bool {
	return c.State.Waiting != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull",
		"InvalidImageName"}, c.State.Waiting.Reason)
}

// Condition returns a condition of the pod, or the zero value if it is not known yet.
func (p Pod) Condition(kind string) condition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

// Mounts reports whether the pod has a volume of a Secret. Unlike labels and owners, volumes of a pod cannot change.
func (p Pod) Mounts(secret string) bool {
	for _, v := range p.Spec.Volumes {
		if v.Secret.SecretName == secret {
			return true
		}
	}
	return false
}

// Waits describes what the containers wait for, for operators.
func (p Pod) Waits() string {
	var all []string
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			all = append(all, strings.TrimSpace(c.Name+": "+w.Reason+" "+w.Message))
		}
	}
	return strings.Join(all, "; ")
}

// AppliedAt is when the launcher last changed an object; zero if it never did.
func (m Metadata) AppliedAt() time.Time {
	return m.changed(func(f managedFields) bool { return f.Manager == fieldManager })
}

// ChangedAt is when anybody last changed an object. Like all its times, it has whole seconds of the API server's clock.
func (m Metadata) ChangedAt() time.Time { return m.changed(func(managedFields) bool { return true }) }

// StatusChangedAt is when the status of an object last changed.
func (m Metadata) StatusChangedAt() time.Time {
	return m.changed(func(f managedFields) bool { return f.Subresource == "status" })
}

func (m Metadata) changed(counts func(managedFields) bool) (last time.Time) {
	for _, f := range m.ManagedFields {
		if counts(f) && f.Time.After(last) {
			last = f.Time
		}
	}
	return last
}

// Container returns the status of a container, or the zero value if that is not known yet.
func (p Pod) Container(name string) ContainerStatus {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == name {
			return c
		}
	}
	return ContainerStatus{}
}

// Wanted returns what the pod says that a container is to have. Others, such as webhooks, may have added containers.
func (p Pod) Wanted(name string) Resources {
	for _, c := range p.Spec.Containers {
		if c.Name == name {
			return c.Resources
		}
	}
	return Resources{}
}
