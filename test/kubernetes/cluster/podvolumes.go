package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// prepareVolumes makes the directories that containers mount, by the names of their volumes.
func (p *pod) prepareVolumes(ctx context.Context) (map[string]string, error) {
	api := p.current()
	group := api.Spec.SecurityContext.FSGroup
	mounts := map[string]string{}
	for _, v := range api.Spec.Volumes {
		dir := filepath.Join(p.dir, "volumes", v.Name)
		mode := os.FileMode(0o770)
		switch {
		case v.PersistentVolumeClaim != nil:
			path, err := p.claimed(ctx, v.PersistentVolumeClaim.ClaimName)
			if err != nil {
				return nil, err
			}
			dir = path
		case v.Secret != nil:
			mode = 0o755
			if err := p.writeSecret(ctx, v, dir); err != nil {
				return nil, err
			}
		}
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, 0, group),
			os.Chmod(dir, mode|os.ModeSetgid)); err != nil {
			return nil, err
		}
		mounts[v.Name] = dir
	}
	return mounts, nil
}

func (p *pod) writeSecret(ctx context.Context, v apiVolume, dir string) error {
	var secret struct{ Data map[string]string }
	path := "/api/v1/namespaces/" + p.first.Metadata.Namespace + "/secrets/" + v.Secret.SecretName
	if found, err := p.node.c.read(ctx, path, &secret); err != nil || !found {
		return fmt.Errorf("secret %s is there: %t: %w", v.Secret.SecretName, found, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for key, value := range secret.Data {
		content, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, key)
		if err := errors.Join(os.WriteFile(file, content, 0o440),
			os.Chown(file, 0, p.first.Spec.SecurityContext.FSGroup)); err != nil {
			return err
		}
	}
	return nil
}

// claimed waits until a claim is bound, and returns where its volume is.
func (p *pod) claimed(ctx context.Context, name string) (string, error) {
	for {
		var c claim
		if _, err := p.node.c.read(ctx, "/api/v1/namespaces/"+p.first.Metadata.Namespace+
			"/persistentvolumeclaims/"+name, &c); err != nil {
			return "", err
		}
		if c.Spec.VolumeName != "" {
			return filepath.Join(p.node.c.cfg.Dir, "volumes", c.Spec.VolumeName), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
