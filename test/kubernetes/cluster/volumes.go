package cluster

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
)

const (
	// StorageClass is the default one: local volumes, which are directories. Claims of it can grow; nothing limits what is
	// written.
	StorageClass = "local"

	provisioner = "test/local"
	nodeName    = "node"
)

type claim struct {
	Metadata metadata
	Spec     struct {
		StorageClassName string
		VolumeName       string
		Resources        struct{ Requests map[string]string }
	}
	Status struct{ Capacity map[string]string }
}

type volume struct {
	Metadata metadata
	Spec     struct{ Local struct{ Path string } }
	Status   struct{ Phase string }
}

type metadata struct {
	Name, Namespace, UID, ResourceVersion string
	DeletionTimestamp                     string
	DeletionGracePeriodSeconds            int
	Labels                                map[string]string
}

// startProvisioner makes a volume for every claim, and removes released ones. The controller-manager's own provisioner
// makes directories that only root can enter.
func (c *Cluster) startProvisioner(ctx context.Context) error {
	err := c.send(ctx, http.MethodPost, "/apis/storage.k8s.io/v1/storageclasses", map[string]any{
		"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
		"metadata": map[string]any{"name": StorageClass,
			"annotations": map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		"provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
		"allowVolumeExpansion": true,
	})
	if err != nil {
		return err
	}
	watch(c, "/api/v1/persistentvolumeclaims", c.provide)
	watch(c, "/api/v1/persistentvolumes", c.removeReleased)
	return nil
}

func (c *Cluster) provide(ctx context.Context, what string, claim claim) {
	if claim.Spec.StorageClassName != StorageClass || claim.Metadata.DeletionTimestamp != "" || what == "DELETED" {
		return
	}
	var err error
	wanted := claim.Spec.Resources.Requests["storage"]
	switch {
	case claim.Spec.VolumeName == "":
		err = c.makeVolume(ctx, claim)
	case len(claim.Status.Capacity) > 0 && claim.Status.Capacity["storage"] != wanted:
		// Both, as a driver that expands volumes does.
		size := map[string]any{"capacity": map[string]string{"storage": wanted}}
		if err = c.send(ctx, http.MethodPatch, "/api/v1/persistentvolumes/"+claim.Spec.VolumeName,
			map[string]any{"spec": size}); err == nil {
			err = c.send(ctx, http.MethodPatch, "/api/v1/namespaces/"+claim.Metadata.Namespace+
				"/persistentvolumeclaims/"+claim.Metadata.Name+"/status", map[string]any{"status": size})
		}
	}
	if err != nil && ctx.Err() == nil {
		c.cfg.Logf("volume of %s: %v", claim.Metadata.Name, err)
	}
}

func (c *Cluster) makeVolume(ctx context.Context, claim claim) error {
	name := "pv-" + claim.Metadata.UID
	path := filepath.Join(c.cfg.Dir, "volumes", name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return c.send(ctx, http.MethodPost, "/api/v1/persistentvolumes", map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolume",
		"metadata": map[string]any{"name": name,
			"annotations": map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		"spec": map[string]any{
			"storageClassName": StorageClass, "accessModes": []string{"ReadWriteOnce"},
			"capacity":                      map[string]string{"storage": claim.Spec.Resources.Requests["storage"]},
			"persistentVolumeReclaimPolicy": "Delete", "local": map[string]string{"path": path},
			"claimRef": map[string]string{
				"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": claim.Metadata.UID,
				"namespace": claim.Metadata.Namespace, "name": claim.Metadata.Name,
			},
			"nodeAffinity": map[string]any{"required": map[string]any{"nodeSelectorTerms": []any{map[string]any{
				"matchExpressions": []any{map[string]any{
					"key": "kubernetes.io/hostname", "operator": "In", "values": []string{nodeName}}},
			}}}},
		},
	})
}

func (c *Cluster) removeReleased(ctx context.Context, what string, v volume) {
	if v.Status.Phase != "Released" || v.Spec.Local.Path == "" || what == "DELETED" {
		return
	}
	err := os.RemoveAll(v.Spec.Local.Path)
	if err == nil {
		err = c.send(ctx, http.MethodDelete, "/api/v1/persistentvolumes/"+v.Metadata.Name, nil)
	}
	if err != nil && ctx.Err() == nil {
		c.cfg.Logf("remove the volume %s: %v", v.Metadata.Name, err)
	}
}
