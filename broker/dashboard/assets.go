package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"time"
)

//go:embed assets
var assetFiles embed.FS

const assetPath = "/dashboard/assets/"

// assetVersion changes whenever an asset does, so that browsers may keep what they have for ever.
var assetVersion = func() string {
	sum := sha256.New()
	err := fs.WalkDir(assetFiles, "assets", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := assetFiles.ReadFile(path)
		sum.Write(content)
		return err
	})
	if err != nil {
		panic(err) // what is embedded can be read
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}()

// asset is the path of a file in assets/.
func asset(file string) string { return assetPath + assetVersion + "/" + file }

// serveAsset answers anyone: the pages of the sign-in need the styles too. While brokers are being replaced one by one,
// a page may come from one of another version; it gets what there is, and browsers don't keep it.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	content, err := assetFiles.ReadFile("assets/" + file)
	if err != nil {
		http.Error(w, "The dashboard has no such file.", http.StatusNotFound)
		return
	}
	if r.PathValue("version") == assetVersion {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, file, time.Time{}, bytes.NewReader(content))
}
