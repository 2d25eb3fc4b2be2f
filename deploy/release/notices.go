package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

var noticeFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)`)

// notices is the text that the licences of the linked modules ask to be passed on.
func notices(programs []*program) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("mysql-broker is linked from these modules. Each is followed by its licence and its notices.\n")
	seen := map[string]bool{}
	for _, p := range programs {
		for _, m := range p.modules {
			if seen[m.path] {
				continue
			}
			seen[m.path] = true
			files, err := m.notices()
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "\n%s\n%s %s\n", strings.Repeat("=", 80), m.path, m.version)
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					return nil, err
				}
				name, err := filepath.Rel(m.dir, file)
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(&out, "%s\n%s:\n\n%s\n", strings.Repeat("-", 80), name, bytes.TrimSpace(text))
			}
		}
	}
	return out.Bytes(), nil
}

// notices are the files with licences and notices beside the packages that are used, and above them.
func (m module) notices() (files []string, err error) {
	dirs := map[string]bool{m.dir: true}
	for _, dir := range m.packages {
		for ; len(dir) > len(m.dir); dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if entry.Type().IsRegular() && noticeFile.MatchString(entry.Name()) && !strings.HasSuffix(entry.Name(), ".go") {
				files = append(files, filepath.Join(dir, entry.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no licence", m.path)
	}
	slices.Sort(files)
	return files, nil
}

// license is the SPDX expression of a module's licences.
func (m module) license() (string, error) {
	files, err := m.notices()
	if err != nil {
		return "", err
	}
	var ids []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for _, match := range licensecheck.Scan(text).Match {
			if match.ID != "GooglePatentsFile" && !match.IsURL && !slices.Contains(ids, match.ID) {
				ids = append(ids, match.ID)
			}
		}
	}
	if len(ids) == 0 {
		return "NOASSERTION", nil
	}
	slices.Sort(ids)
	return strings.Join(ids, " AND "), nil
}
