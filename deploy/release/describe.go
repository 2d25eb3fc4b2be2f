package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// describe writes an SBOM for each artefact, the provenance of all, and their checksums.
func (r *release) describe(programs []*program, images []*serverImage) error {
	artefacts, err := r.listDist()
	if err != nil {
		return err
	}
	for _, a := range artefacts {
		if err := r.writeBillOf(a, programs, images); err != nil {
			return err
		}
	}
	if err := r.writeProvenance(artefacts, programs[0].goTool, images); err != nil {
		return err
	}
	all, err := r.listDist()
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, a := range all {
		fmt.Fprintf(&sums, "%s  %s\n", a.sum, a.name)
	}
	return r.write("SHA256SUMS", sums.Bytes())
}

type artefact struct{ name, sum string }

// part is a module or a package that is in an artefact.
type part struct{ name, version, license, purl string }

// writeBillOf writes the SBOM of an artefact: what it is made of, each once.
func (r *release) writeBillOf(a artefact, programs []*program, images []*serverImage) error {
	for _, i := range images {
		if a.name == i.archive(r) {
			var parts []part
			for _, p := range i.packages {
				parts = append(parts, part{p.name(), p.debianVersion(), "NOASSERTION", p.purl()})
			}
			return r.writeBill(a, "NOASSERTION", parts)
		}
	}
	if strings.Contains(a.name, "-kubernetes") {
		return r.writeBill(a, "Apache-2.0", nil)
	}
	var parts []part
	for _, p := range programs {
		other := slices.ContainsFunc(programs, func(o *program) bool { return o != p && strings.Contains(a.name, o.arch) })
		if other || strings.HasSuffix(a.name, "-cf.zip") && p.arch != "amd64" {
			continue
		}
		for _, m := range p.modules {
			purl := "pkg:golang/" + m.path + "@" + m.version
			if slices.ContainsFunc(parts, func(of part) bool { return of.purl == purl }) {
				continue
			}
			license, err := m.license()
			if err != nil {
				return err
			}
			parts = append(parts, part{m.path, m.version, license, purl})
		}
	}
	return r.writeBill(a, "Apache-2.0", parts)
}

func (r *release) listDist() (all []artefact, err error) {
	entries, err := os.ReadDir(r.dist) // sorted
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(r.dist, entry.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, artefact{entry.Name(), sum(text)})
	}
	return all, nil
}

type object = map[string]any

// writeBill writes the SBOM of an artefact. https://spdx.github.io/spdx-spec/v2.3/
func (r *release) writeBill(a artefact, license string, parts []part) error {
	packages := []object{{"SPDXID": "SPDXRef-artefact", "name": "mysql-broker", "versionInfo": r.version,
		"packageFileName": a.name, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
		"licenseConcluded": license, "licenseDeclared": license, "copyrightText": "NOASSERTION",
		"checksums": []object{{"algorithm": "SHA256", "checksumValue": a.sum}}}}
	relationships := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
		"relatedSpdxElement": "SPDXRef-artefact"}}
	for n, p := range parts {
		id := fmt.Sprintf("SPDXRef-part-%d", n+1)
		packages = append(packages, object{"SPDXID": id, "name": p.name, "versionInfo": p.version,
			"downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseConcluded": p.license,
			"licenseDeclared": p.license, "copyrightText": "NOASSERTION",
			"externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
				"referenceLocator": p.purl}}})
		relationships = append(relationships, object{"spdxElementId": "SPDXRef-artefact",
			"relationshipType": "CONTAINS", "relatedSpdxElement": id})
	}
	return r.writeJSON(a.name+".spdx.json", object{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0",
		"SPDXID": "SPDXRef-DOCUMENT", "name": a.name, "documentNamespace": "urn:sha256:" + a.sum,
		"creationInfo": object{"created": r.time, "creators": []string{"Tool: mysql-broker-release"}},
		"packages":     packages, "relationships": relationships})
}

// writeProvenance says what the artefacts were made from. It is not signed: who builds the commit gets the same bytes.
// https://slsa.dev/spec/v1.0/provenance
func (r *release) writeProvenance(artefacts []artefact, goVersion string, images []*serverImage) error {
	var subjects []object
	for _, a := range artefacts {
		subjects = append(subjects, object{"name": a.name, "digest": object{"sha256": a.sum}})
	}
	made := []object{{"uri": "git+mysql-broker", "digest": object{"gitCommit": r.commit}}}
	for _, i := range images {
		for _, p := range i.packages {
			made = append(made, object{"uri": p.purl(), "digest": object{"sha256": p.sum}})
		}
	}
	return r.writeJSON("mysql-broker-"+r.version+".provenance.json", object{"_type": "https://in-toto.io/Statement/v1",
		"subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{"buildType": "urn:mysql-broker:make-release",
				"externalParameters":   object{"command": "make release VERSION=" + r.version},
				"internalParameters":   object{"go": goVersion, "SOURCE_DATE_EPOCH": r.time.Unix()},
				"resolvedDependencies": made},
			"runDetails": object{"builder": object{"id": "urn:mysql-broker:deploy/release"}}}})
}

func (r *release) writeJSON(name string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return r.write(name, append(text, '\n'))
}
