package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"

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

// platformImage is an image for one architecture.
type platformImage struct {
	arch           string
	title, licence string
	tree                  // its file system
	config         object // what a container runs: https://github.com/opencontainers/image-spec/blob/main/config.md
}

// brokerImage writes an OCI archive with the broker's image for every architecture, and returns the digest that names
// it. Its files are those that deploy/container/Dockerfile puts there. The CA certificates are Mozilla's, of a module,
// because each machine has others.
func (r *release) brokerImage(programs []*program, notices []byte) (digest string, err error) {
	var platforms []platformImage
	for _, p := range programs {
		image := platformImage{arch: p.arch, title: "mysql-broker", licence: "Apache-2.0",
			config: object{"User": "65532:65532", "Entrypoint": []string{"/mysql-broker"}, "Cmd": []string{"serve"},
				"ExposedPorts": object{"8080/tcp": struct{}{}}, "WorkingDir": "/"}}
		image.add("mysql-broker", 0o755, p.text)
		image.add("tmp/", 0o1777, nil) // PostgreSQL's driver needs a file for a CA that is in the URL
		image.add("etc/ssl/certs/ca-certificates.crt", 0o644, certificates())
		image.add("THIRD-PARTY-NOTICES", 0o644, notices)
		if err := image.addOwn(r, nil, "catalog.yml", "LICENSE"); err != nil {
			return "", err
		}
		platforms = append(platforms, image)
	}
	return r.writeImage("mysql-broker-"+r.version+"-image.oci.tar", "mysql-broker", r.version, platforms)
}

// writeImage writes an OCI archive of an image, which containerd imports as docker.io/library/NAME:TAG if it is told
// nothing else, and returns the digest that names it.
func (r *release) writeImage(archive, name, tag string, platforms []platformImage) (digest string, err error) {
	blobs := tree{}
	var manifests []descriptor
	for _, p := range platforms {
		manifest, err := r.addPlatform(&blobs, p, tag)
		if err != nil {
			return "", err
		}
		manifests = append(manifests, manifest)
	}
	all, err := addBlob(&blobs, typeIndex, object{"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests})
	if err != nil {
		return "", err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name": "docker.io/library/" + name + ":" + tag}
	entry, err := json.Marshal(object{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{all}})
	if err != nil {
		return "", err
	}
	blobs.add("index.json", 0o644, entry)
	blobs.add("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	var out bytes.Buffer
	if err := blobs.writeTar(&out, "", r.time); err != nil {
		return "", err
	}
	return all.Digest, r.write(archive, out.Bytes())
}

// addPlatform adds the blobs of the image for one architecture.
func (r *release) addPlatform(blobs *tree, p platformImage, version string) (descriptor, error) {
	var compressed bytes.Buffer
	plain, w := sha256.New(), gzip.NewWriter(&compressed)
	if err := errors.Join(p.writeTar(io.MultiWriter(plain, w), "", r.time), w.Close()); err != nil {
		return descriptor{}, err
	}
	labels := map[string]string{"org.opencontainers.image.version": version,
		"org.opencontainers.image.licenses": p.licence,
		"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.title": p.title}
	p.config["Labels"] = labels
	config, err := addBlob(blobs, typeConfig, object{"architecture": p.arch, "os": "linux", "created": r.time,
		"config": p.config,
		"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", plain.Sum(nil))}}})
	if err != nil {
		return descriptor{}, err
	}
	layer := addBytes(blobs, typeLayer, compressed.Bytes())
	manifest, err := addBlob(blobs, typeManifest, object{"schemaVersion": 2, "mediaType": typeManifest,
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
