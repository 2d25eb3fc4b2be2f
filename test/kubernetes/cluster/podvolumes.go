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

// secretObject is what a played node reads of a Secret.
type secretObject struct {
	Metadata metadata
	Data     map[string]string
}

func (p *pod) writeSecret(ctx context.Context, v apiVolume, dir string) error {
	var secret secretObject
	path := "/api/v1/namespaces/" + p.first.Metadata.Namespace + "/secrets/" + v.Secret.SecretName
	if found, err := p.node.c.read(ctx, path, &secret); err != nil || !found {
		return fmt.Errorf("secret %s is there: %t: %w", v.Secret.SecretName, found, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return p.writeFiles(secret, dir)
}

// writeFiles replaces each file whole, as mysqld may read it at any time.
func (p *pod) writeFiles(secret secretObject, dir string) error {
	for key, value := range secret.Data {
		content, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, key)
		if err := errors.Join(os.WriteFile(file+".new", content, 0o440),
			os.Chown(file+".new", 0, p.first.Spec.SecurityContext.FSGroup), os.Rename(file+".new", file)); err != nil {
			return err
		}
	}
	return nil
}

// refresh writes a changed Secret to the pods' volumes at once; a kubelet does so within a minute or two.
func (n *Node) refresh(_ context.Context, what string, secret secretObject) {
	if what != "MODIFIED" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		for _, v := range p.first.Spec.Volumes {
			dir := filepath.Join(p.dir, "volumes", v.Name)
			if p.first.Metadata.Namespace != secret.Metadata.Namespace || v.Secret == nil ||
				v.Secret.SecretName != secret.Metadata.Name || p.pid() == 0 {
				continue // it reads the Secret when it starts
			}
			if err := p.writeFiles(secret, dir); err != nil && n.c.background.Err() == nil {
				n.c.cfg.Logf("secret of %s: %v", p.first.Metadata.Name, err)
			}
		}
	}
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
		case <-time.After(50 * time.Millisecond):
		}
	}
}
