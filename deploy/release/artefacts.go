package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func (r *release) write(name string, text []byte) error {
	fmt.Printf("%8.1f MB  %s\n", float64(len(text))/1e6, name)
	return os.WriteFile(filepath.Join(r.dist, name), text, 0o644) // #nosec G306 -- to be published
}

// readme is a file of this folder, for the version.
func (r *release) readme(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "deploy/release", name))
	return bytes.ReplaceAll(text, []byte("VERSION"), []byte(r.version)), err
}

// cloudFoundry writes what `cf push` takes. Its files are where they are in the project, so that the pages about Cloud
// Foundry hold for both; .cfignore keeps from the platform what the broker does not read.
func (r *release) cloudFoundry(p *program, notices []byte) error {
	readme, err := r.readme("README-cf.md")
	if err != nil {
		return err
	}
	var t tree
	t.add("bin/mysql-broker", 0o755, p.text)
	t.add("README.md", 0o644, readme)
	t.add("THIRD-PARTY-NOTICES", 0o644, notices)
	t.add(".cfignore", 0o644, []byte("deploy/\nREADME.md\nSHA256SUMS\nvars.yml\nkeyset\n"))
	if err := t.addOwn(r, nil, "manifest.yml", "catalog.yml", "LICENSE", "deploy/cloudfoundry",
		"deploy/shared-server"); err != nil {
		return err
	}
	t.addSums()
	name := "mysql-broker-" + r.version + "-cf"
	text, err := t.zip(name+"/", r.time)
	if err != nil {
		return err
	}
	return r.write(name+".zip", text)
}

// host writes what is unpacked on a host: the program, and the files of the project that operators use, where they are
// there.
func (r *release) host(p *program, notices []byte, texts commandTexts) error {
	var t tree
	t.add("bin/mysql-broker", 0o755, p.text)
	t.add("THIRD-PARTY-NOTICES", 0o644, notices)
	if err := t.addOwn(r, nil, "README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "catalog.yml", "docs",
		"deploy/systemd", "deploy/shared-server", "deploy/prometheus", "deploy/grafana", "deploy/haproxy"); err != nil {
		return err
	}
	texts.addTo(&t, "share/")
	t.addSums()
	return r.writeTarGz("mysql-broker-"+r.version+"-linux-"+p.arch, t)
}

// kubernetes writes the folders of kustomize, with the broker's image by its digest in the base, and those of mysqld in
// the example's settings.
func (r *release) kubernetes(digest string, images []*serverImage, notices []byte) error {
	var t tree
	t.add("THIRD-PARTY-NOTICES", 0o644, notices)
	if err := t.addOwn(r, nil, "LICENSE", "deploy/kubernetes", "deploy/mysqld-image", "deploy/prometheus",
		"deploy/grafana", "docs/kubernetes.md"); err != nil {
		return err
	}
	for i, f := range t {
		switch f.name {
		case "deploy/kubernetes/base/kustomization.yaml":
			t[i].text = fmt.Appendf(f.text, "images:\n- name: mysql-broker\n  digest: %s\n", digest)
		case "deploy/kubernetes/example/kustomization.yaml":
			// The base names the image by its digest.
			t[i].text = []byte(strings.Replace(string(f.text), "  newTag: 1.0.0\n", "", 1))
		case "deploy/kubernetes/example/broker.env.example":
			t[i].text = append(f.text, launcherImages(images)...)
		}
	}
	t.addSums()
	return r.writeTarGz("mysql-broker-"+r.version+"-kubernetes", t)
}

// launcherImages is the setting by which the broker finds this release's images of mysqld in a registry.
func launcherImages(images []*serverImage) string {
	if len(images) == 0 {
		return ""
	}
	var names []string
	for _, i := range images {
		names = append(names, i.flavour+"-"+i.version+"=registry.example.com/"+i.flavour+"@"+i.digest)
	}
	return "# Dedicated servers, with the component ../dedicated: the images of this release.\n#LAUNCHER_IMAGES=" +
		strings.Join(names, ",") + "\n"
}

func (r *release) writeTarGz(name string, t tree) error {
	text, err := t.tarGz(name+"/", r.time)
	if err != nil {
		return err
	}
	return r.write(name+".tar.gz", text)
}
