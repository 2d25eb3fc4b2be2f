package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

const (
	memory  = "memory"  // the resource of a pod
	storage = "storage" // the resource of a claim

	// offlineAfter is how long a node may take to enlarge the file system of a mounted volume. After that, the volume's
	// driver seems to do so only when the volume is mounted again.
	offlineAfter = 2 * time.Minute

	cannotGrow = "The disk of this server cannot grow."
)

// applyClaim creates or enlarges the claim of a server. A claim cannot shrink, so one that is larger already, from a
// resize that failed later, keeps its size. It is left alone if another broker has continued the work.
func (o objects) applyClaim(ctx context.Context, s *server) (c api.Claim, err error) {
	wanted := claimOf(s)
	if s.state.Phase != phaseLaunching {
		present, err := o.volume(ctx, s)
		if err != nil {
			return c, err
		}
		now, next := present.Spec.Resources, wanted.Spec.Resources
		if api.ToMilli(now.Requests[storage]) > api.ToMilli(next.Requests[storage]) {
			wanted.Spec.Resources = now
		}
		wanted.Metadata.ResourceVersion = present.Metadata.ResourceVersion
		if err := o.expectWork(ctx, s); err != nil {
			return c, err
		}
	}
	err = o.api.Apply(ctx, o.api.Path(api.Claims, s.name), wanted, &c)
	if api.IsConflict(err) { // also if the cluster has reported on its volume
		return c, launcher.NotYet(minPoll, "Waiting for the server's volume")
	}
	return c, err
}

var errVolumeGone = errors.New("somebody has deleted its volume")

// volume returns the claim of a server that may hold data. It gives up if the claim is gone, because mysqld would start
// with an empty volume in its place; and if somebody is deleting it, because the cluster then removes the volume as
// soon as no pod uses it.
func (o objects) volume(ctx context.Context, s *server) (c api.Claim, err error) {
	err = o.api.Get(ctx, o.api.Path(api.Claims, s.name), &c)
	if api.IsNotFound(err) {
		return c, &launcher.Error{Action: launcher.GiveUp, Sentence: "The volume of this server is gone.",
			Err: fmt.Errorf("server %s: %w: create the PersistentVolumeClaim %s again with the earlier volume, or restore a "+
				"backup into a new instance", s.id, errVolumeGone, s.name)}
	}
	if err == nil && !c.Metadata.DeletionTimestamp.IsZero() {
		return c, &launcher.Error{Action: launcher.GiveUp, Sentence: "The volume of this server is being deleted.",
			Err: fmt.Errorf("server %s: somebody has deleted the PersistentVolumeClaim %s, which goes with its data when "+
				"the pod %s ends; back up the instance, restore the backup into a new one, delete the pod, and then delete "+
				"the instance", s.id, s.name, s.podName())}
	}
	return c, err
}

// growVolume enlarges the claim of a server, and returns NotYet until its volume has that size. online is false if the
// volume's driver enlarges the file system only when the pod is replaced.
func (o objects) growVolume(ctx context.Context, s *server) (online bool, err error) {
	c, err := o.applyClaim(ctx, s)
	if err != nil {
		return false, err
	}
	if api.ToMilli(c.Status.Capacity[storage]) >= api.ToMilli(fmt.Sprintf("%dMi", s.state.volumeMB())) {
		return true, nil
	}
	// https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-claim-v1/
	switch state := c.Status.AllocatedResourceStatuses[storage]; state {
	case "ControllerResizeInfeasible", "NodeResizeInfeasible":
		return false, &launcher.Error{Action: launcher.GiveUp, Sentence: cannotGrow,
			Err: fmt.Errorf("server %s: the driver of its volume cannot enlarge it: %s", s.id, state)}
	}
	for _, pending := range c.Status.Conditions {
		if pending.Type == "FileSystemResizePending" && pending.Status == "True" &&
			o.api.Since(pending.LastTransitionTime) > offlineAfter {
			return false, nil
		}
	}
	if since := c.Metadata.AppliedAt(); !since.IsZero() && o.api.Since(since) > o.cfg.LaunchTimeout {
		return false, &launcher.Error{Action: launcher.GiveUp, Sentence: "The disk of this server did not grow in time.",
			Err: fmt.Errorf("server %s: its volume has %s, and is to have %d MiB since %v", s.id, c.Status.Capacity[storage],
				s.state.volumeMB(), since)}
	}
	return false, o.poll(c.Metadata.AppliedAt(), "Enlarging the server's disk")
}

func (s *server) copyName() string { return s.name + "-before" }

// claimCopy creates the claim for the copy, of a volume as large as that of the data.
func (o objects) claimCopy(ctx context.Context, s *server) error {
	wanted, copied := claimOf(s), api.Claim{}
	wanted.Metadata.Name = s.copyName()
	if err := o.api.Apply(ctx, o.api.Path(api.Claims, s.copyName()), wanted, &copied); err != nil {
		return err
	}
	if !copied.Metadata.DeletionTimestamp.IsZero() {
		return launcher.NotYet(minPoll, "Waiting until the volume of an earlier copy is removed")
	}
	return nil
}

func (o objects) deleteCopy(ctx context.Context, s *server) error {
	err := o.api.Delete(ctx, o.api.Path(api.Claims, s.copyName()), api.DeleteOptions{})
	if api.IsNotFound(err) {
		return nil
	}
	return err
}
