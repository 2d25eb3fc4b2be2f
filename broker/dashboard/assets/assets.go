// Package assets holds the style, the script and the icon of the pages of the dashboard and of the sign-in.
package assets

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"time"
)

//go:embed *.css *.js *.svg
var files embed.FS

// Root is the path below which the files are found.
const Root = "/dashboard/assets/"

// version changes when a file changes, so that browsers can cache files forever.
var version = func() string {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(path)
		sum.Write(content)
		return err
	})
	if err != nil {
		panic(err) // embedded files can be read
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}()

// Path is the path of a file.
func Path(file string) string { return Root + version + "/" + file }

// Serve serves the file that the pattern's {file} and {version} name, to anyone. During a rolling upgrade, a page may
// come from a broker of another version; it gets this broker's file, which browsers do not cache.
func Serve(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	content, err := files.ReadFile(file)
	if err != nil {
		http.Error(w, "The dashboard has no such file.", http.StatusNotFound)
		return
	}
	if r.PathValue("version") == version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, file, time.Time{}, bytes.NewReader(content))
}
