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

// version changes whenever a file does, so that browsers may keep what they have for ever.
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
		panic(err) // what is embedded can be read
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}()

// Path is the path of a file.
func Path(file string) string { return Root + version + "/" + file }

// Serve answers anyone, with the file that the pattern's {file} names, and its {version}. While brokers are being
// replaced one by one, a page may come from one of another version; it gets what there is, and browsers don't keep it.
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
