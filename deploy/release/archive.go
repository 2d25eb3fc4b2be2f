package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one of an archive.
type file struct {
	name string // with slashes
	mode fs.FileMode
	text []byte
	link string // of a symbolic link: where it leads
}

// tree is what is in an archive.
type tree []file

func (t *tree) add(name string, mode fs.FileMode, text []byte) {
	*t = append(*t, file{name: name, mode: mode, text: text})
}

// addOwn adds files of the project at the places that they have there: folders with all that is tracked below, but no
// code. What rename returns for a name is where the file goes, "" to leave it out; nil keeps all names.
func (t *tree) addOwn(r *release, rename func(string) string, names ...string) error {
	listed, err := r.git(append([]string{"ls-files", "--"}, names...)...)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(listed) {
		if strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.yml") {
			continue
		}
		to := name
		if rename != nil {
			to = rename(name)
		}
		if to == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(text, []byte("#!")) {
			mode = 0o755
		}
		t.add(to, mode, text)
	}
	return nil
}

// addSums adds the checksums of what is in the tree.
func (t *tree) addSums() {
	var sums strings.Builder
	for _, f := range t.sorted() {
		fmt.Fprintf(&sums, "%s  %s\n", sum(f.text), f.name)
	}
	t.add("SHA256SUMS", 0o644, []byte(sums.String()))
}

func sum(text []byte) string {
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])
}

func (t tree) sorted() tree {
	return slices.SortedFunc(slices.Values(t), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// writeTar writes the files and the directories above them, all of root.
func (t tree) writeTar(to io.Writer, prefix string, at time.Time) error {
	w := tar.NewWriter(to)
	made := map[string]bool{".": true, "./": true, "/": true, "": true}
	var makeDir func(dir string) error
	makeDir = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := makeDir(path.Dir(dir)); err != nil {
			return err
		}
		mode := int64(0o755)
		if path.Base(dir) == "tmp" {
			mode = 0o1777
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode, ModTime: at,
			Format: tar.FormatGNU})
	}
	for _, f := range t.sorted() {
		name := prefix + f.name
		if strings.HasSuffix(name, "/") {
			if err := makeDir(strings.TrimSuffix(name, "/")); err != nil {
				return err
			}
			continue
		}
		if err := makeDir(path.Dir(name)); err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.mode), Size: int64(len(f.text)), ModTime: at,
			Format: tar.FormatGNU}
		if f.link != "" {
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.link, 0o777
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.text); err != nil {
			return err
		}
	}
	return w.Close()
}

// tarGz is the tree as a compressed archive, whose names begin with prefix.
func (t tree) tarGz(prefix string, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	err = errors.Join(t.writeTar(w, prefix, at), w.Close())
	return out.Bytes(), err
}

// zip is the tree as an archive that keeps modes.
func (t tree) zip(prefix string, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range t.sorted() {
		header := &zip.FileHeader{Name: prefix + f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode)
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
