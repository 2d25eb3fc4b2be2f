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
func (r *release) describe(programs []*program) error {
	artefacts, err := r.listDist()
	if err != nil {
		return err
	}
	for _, a := range artefacts {
		linked := slices.Clone(programs)
		if strings.Contains(a.name, "-kubernetes") {
			linked = nil
		}
		for _, p := range programs {
			if strings.Contains(a.name, p.arch) || strings.HasSuffix(a.name, "-cf.zip") && p.arch == "amd64" {
				linked = []*program{p}
			}
		}
		if err := r.writeBill(a, linked); err != nil {
			return err
		}
	}
	if err := r.writeProvenance(artefacts, programs[0].goTool); err != nil {
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

// writeBill writes the SBOM of an artefact: the modules that its programs are linked from.
// https://spdx.github.io/spdx-spec/v2.3/
func (r *release) writeBill(a artefact, linked []*program) error {
	packages := []object{{"SPDXID": "SPDXRef-artefact", "name": "mysql-broker", "versionInfo": r.version,
		"packageFileName": a.name, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
		"licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
		"checksums": []object{{"algorithm": "SHA256", "checksumValue": a.sum}}}}
	relationships := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
		"relatedSpdxElement": "SPDXRef-artefact"}}
	seen := map[string]bool{}
	for _, p := range linked {
		for _, m := range p.modules {
			if seen[m.path] {
				continue
			}
			seen[m.path] = true
			license, err := m.license()
			if err != nil {
				return err
			}
			id := fmt.Sprintf("SPDXRef-module-%d", len(packages))
			packages = append(packages, object{"SPDXID": id, "name": m.path, "versionInfo": m.version,
				"downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseConcluded": license,
				"licenseDeclared": license, "copyrightText": "NOASSERTION",
				"externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
					"referenceLocator": "pkg:golang/" + m.path + "@" + m.version}}})
			relationships = append(relationships, object{"spdxElementId": "SPDXRef-artefact",
				"relationshipType": "CONTAINS", "relatedSpdxElement": id})
		}
	}
	return r.writeJSON(a.name+".spdx.json", object{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0",
		"SPDXID": "SPDXRef-DOCUMENT", "name": a.name, "documentNamespace": "urn:sha256:" + a.sum,
		"creationInfo": object{"created": r.time, "creators": []string{"Tool: mysql-broker-release"}},
		"packages":     packages, "relationships": relationships})
}

// writeProvenance says what the artefacts were made from. It is not signed: who builds the commit gets the same bytes.
// https://slsa.dev/spec/v1.0/provenance
func (r *release) writeProvenance(artefacts []artefact, goVersion string) error {
	var subjects []object
	for _, a := range artefacts {
		subjects = append(subjects, object{"name": a.name, "digest": object{"sha256": a.sum}})
	}
	return r.writeJSON("mysql-broker-"+r.version+".provenance.json", object{"_type": "https://in-toto.io/Statement/v1",
		"subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{"buildType": "urn:mysql-broker:make-release",
				"externalParameters":   object{"command": "make release VERSION=" + r.version},
				"internalParameters":   object{"go": goVersion, "SOURCE_DATE_EPOCH": r.time.Unix()},
				"resolvedDependencies": []object{{"uri": "git+mysql-broker", "digest": object{"gitCommit": r.commit}}}},
			"runDetails": object{"builder": object{"id": "urn:mysql-broker:deploy/release"}}}})
}

func (r *release) writeJSON(name string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return r.write(name, append(text, '\n'))
}
