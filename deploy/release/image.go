package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Media types of https://github.com/opencontainers/image-spec.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// image writes an OCI archive with the broker's image for every architecture, and returns the digest that names it. Its
// files are those that deploy/container/Dockerfile puts there. The CA certificates are Mozilla's, of a module, because
// each machine has others.
func (r *release) image(programs []*program, notices []byte) (digest string, err error) {
	blobs := tree{}
	index := map[string]any{"schemaVersion": 2, "mediaType": typeIndex}
	var manifests []descriptor
	for _, p := range programs {
		manifest, err := r.platformImage(&blobs, p, notices)
		if err != nil {
			return "", err
		}
		manifests = append(manifests, manifest)
	}
	index["manifests"] = manifests
	all, err := addBlob(&blobs, typeIndex, index)
	if err != nil {
		return "", err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name": "docker.io/library/mysql-broker:" + r.version}
	entry, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{all}})
	if err != nil {
		return "", err
	}
	blobs.add("index.json", 0o644, entry)
	blobs.add("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	var out bytes.Buffer
	if err := blobs.writeTar(&out, "", r.time); err != nil {
		return "", err
	}
	return all.Digest, r.write("mysql-broker-"+r.version+"-image.oci.tar", out.Bytes())
}

// platformImage adds the blobs of the image for one architecture.
func (r *release) platformImage(blobs *tree, p *program, notices []byte) (descriptor, error) {
	var t tree
	t.add("mysql-broker", 0o755, p.text)
	t.add("tmp/", 0o1777, nil) // PostgreSQL's driver needs a file for a CA that is in the URL
	t.add("etc/ssl/certs/ca-certificates.crt", 0o644, certificates())
	t.add("THIRD-PARTY-NOTICES", 0o644, notices)
	if err := t.addOwn(r, nil, "catalog.yml", "LICENSE"); err != nil {
		return descriptor{}, err
	}
	var plain, compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if err := errors.Join(t.writeTar(&plain, "", r.time), t.writeTar(w, "", r.time), w.Close()); err != nil {
		return descriptor{}, err
	}
	labels := map[string]string{"org.opencontainers.image.version": r.version,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.title": "mysql-broker"}
	config, err := addBlob(blobs, typeConfig, map[string]any{"architecture": p.arch, "os": "linux", "created": r.time,
		"config": map[string]any{"User": "65532:65532", "Entrypoint": []string{"/mysql-broker"}, "Cmd": []string{"serve"},
			"ExposedPorts": map[string]any{"8080/tcp": struct{}{}}, "WorkingDir": "/", "Labels": labels},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum(plain.Bytes())}}})
	if err != nil {
		return descriptor{}, err
	}
	layer := addBytes(blobs, typeLayer, compressed.Bytes())
	manifest, err := addBlob(blobs, typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest,
		"config": config, "layers": []descriptor{layer}, "annotations": labels})
	manifest.Platform = &platform{p.arch, "linux"}
	return manifest, err
}

func addBlob(blobs *tree, mediaType string, content any) (descriptor, error) {
	text, err := json.Marshal(content)
	return addBytes(blobs, mediaType, text), err
}

func addBytes(blobs *tree, mediaType string, text []byte) descriptor {
	digest := sum(text)
	blobs.add("blobs/sha256/"+digest, 0o644, text)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(text)}
}

// certificates are the CAs that Mozilla trusts for everything: a file cannot say that one is trusted in part.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}
