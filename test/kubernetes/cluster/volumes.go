package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Storage classes of local volumes, which are directories.
const (
	// StorageClass is the default one. Its volumes grow at once with their claims; nothing limits what is written.
	StorageClass = "local"

	// LimitedClass has file systems in memory, which are as large as their claims.
	LimitedClass = "limited"

	// FixedClass has claims that cannot grow.
	FixedClass = "fixed"

	// PendingClass has claims that can grow, and volumes that grow only when a test changes the status of the claim.
	PendingClass = "pending"
)

var classes = []string{StorageClass, LimitedClass, FixedClass, PendingClass}

const (
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
}

// startProvisioner makes a volume for every claim, and removes released ones. The controller-manager's own provisioner
// makes directories that only root can enter.
func (c *Cluster) startProvisioner(ctx context.Context) error {
	for _, class := range classes {
		if err := c.send(ctx, http.MethodPost, "/apis/storage.k8s.io/v1/storageclasses", map[string]any{
			"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
			"metadata": map[string]any{"name": class, "annotations": map[string]string{
				"storageclass.kubernetes.io/is-default-class": strconv.FormatBool(class == StorageClass)}},
			"provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
			"allowVolumeExpansion": class != FixedClass,
		}); err != nil {
			return err
		}
	}
	c.provides = true
	watch(c, "/api/v1/persistentvolumeclaims", c.provide)
	watch(c, "/api/v1/persistentvolumes", c.removeReleased)
	return nil
}

func (c *Cluster) provide(ctx context.Context, claim claim) {
	if !slices.Contains(classes, claim.Spec.StorageClassName) || claim.Metadata.DeletionTimestamp != "" {
		return
	}
	var err error
	wanted := claim.Spec.Resources.Requests["storage"]
	switch {
	case claim.Spec.VolumeName == "":
		err = c.makeVolume(ctx, claim)
	case len(claim.Status.Capacity) > 0 && claim.Status.Capacity["storage"] != wanted &&
		claim.Spec.StorageClassName != PendingClass:
		if claim.Spec.StorageClassName == LimitedClass {
			err = unix.Mount("", c.volumeDir(claim.Spec.VolumeName), "", unix.MS_REMOUNT, sizeOption(wanted))
		}
		// Both, as a driver that expands volumes does.
		size := map[string]any{"capacity": map[string]string{"storage": wanted}}
		if err == nil {
			err = c.send(ctx, http.MethodPatch, "/api/v1/persistentvolumes/"+claim.Spec.VolumeName, map[string]any{"spec": size})
		}
		if err == nil {
			err = c.send(ctx, http.MethodPatch, "/api/v1/namespaces/"+claim.Metadata.Namespace+
				"/persistentvolumeclaims/"+claim.Metadata.Name+"/status", map[string]any{"status": size})
		}
	}
	if err != nil && ctx.Err() == nil {
		log.Printf("volume of %s: %v", claim.Metadata.Name, err)
	}
}

func (c *Cluster) volumeDir(name string) string { return filepath.Join(c.cfg.Dir, "volumes", name) }

func sizeOption(quantity string) string {
	return "mode=0755,size=" + strings.TrimSuffix(quantity, "i") // such as 1Gi, and tmpfs counts in these units too
}

func (c *Cluster) makeVolume(ctx context.Context, claim claim) error {
	name := "pv-" + claim.Metadata.UID
	path := c.volumeDir(name)
	err := os.Mkdir(path, 0o755)
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) { // an earlier event of the same claim made it
		return err
	}
	size := claim.Spec.Resources.Requests["storage"]
	if made && claim.Spec.StorageClassName == LimitedClass {
		if err := unix.Mount("volume", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, sizeOption(size)); err != nil {
			return err
		}
	}
	return c.send(ctx, http.MethodPost, "/api/v1/persistentvolumes", map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolume",
		"metadata": map[string]any{"name": name,
			"annotations": map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		"spec": map[string]any{
			"storageClassName": claim.Spec.StorageClassName, "accessModes": []string{"ReadWriteOnce"},
			"capacity":                      map[string]string{"storage": size},
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

func (c *Cluster) removeReleased(ctx context.Context, v volume) {
	if v.Status.Phase != "Released" || v.Spec.Local.Path == "" {
		return
	}
	err := removeVolume(v.Spec.Local.Path)
	if err == nil {
		err = c.send(ctx, http.MethodDelete, "/api/v1/persistentvolumes/"+v.Metadata.Name, nil)
	}
	if err != nil && ctx.Err() == nil {
		log.Printf("remove the volume %s: %v", v.Metadata.Name, err)
	}
}

// removeVolume removes a directory, or the file system that is mounted there and the directory.
func removeVolume(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) && os.Getuid() == 0 { // nothing is mounted
		return err
	}
	return os.RemoveAll(path)
}

// removeVolumes removes all that startProvisioner's watches have made.
func (c *Cluster) removeVolumes() {
	all, err := filepath.Glob(c.volumeDir("*"))
	for _, path := range all {
		err = errors.Join(err, removeVolume(path))
	}
	if err != nil {
		log.Printf("remove volumes: %v", err)
	}
}

// watch calls do with every object at a path, and with each again when it changes, until the cluster stops. Where a
// watch ends, the next one begins with all objects again.
func watch[T any](c *Cluster, path string, do func(ctx context.Context, object T)) {
	c.loops.Go(func() {
		for c.background.Err() == nil {
			watchOnce(c, path, do)
			select {
			case <-c.background.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

func watchOnce[T any](c *Cluster, path string, do func(ctx context.Context, object T)) {
	request, err := http.NewRequestWithContext(c.background, http.MethodGet, c.URL+path+"?watch=1&resourceVersion=0", nil)
	if err != nil {
		log.Printf("watch %s: %v", path, err)
		return
	}
	response, err := c.client.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	for lines := json.NewDecoder(response.Body); ; {
		var event struct {
			Type   string // ADDED, MODIFIED, DELETED, BOOKMARK or ERROR
			Object T
		}
		if lines.Decode(&event) != nil {
			return
		}
		if event.Type == "ADDED" || event.Type == "MODIFIED" {
			do(c.background, event.Object)
		}
	}
}
