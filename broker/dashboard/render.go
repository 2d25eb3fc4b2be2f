package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"time"

	"mysql-broker/broker/dashboard/assets"
	"mysql-broker/broker/signin"
	"mysql-broker/provisioner/task"
	"mysql-broker/visible"
)

//go:embed templates
var templateFiles embed.FS

var functions = template.FuncMap{"asset": assets.Path, "bytes": bytesText, "mebibytes": mebibytesText, "time": timeText,
	"stamp": stampText, "took": tookText, "percent": percent, "path": InstancePath, "token": task.Token, "plural": plural,
	"capital": capital, "shell": shellText}

// templates maps file names to pages, each with the layout around it.
var templates = func() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions).ParseFS(templateFiles,
		"templates/layout.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	for _, name := range []string{"instance.html", "overview.html", "refusal.html"} {
		page := template.Must(shared.Clone())
		all[name] = template.Must(page.ParseFS(templateFiles, "templates/"+name))
	}
	return all
}()

// page is what the layout shows; Content is for the page's own template.
type page struct {
	Title   string
	Viewer  signin.Viewer
	Section string // the current section of the navigation
	Content any
}

// show writes a whole page, or a line of text if rendering fails.
func (d *Dashboard) show(w http.ResponseWriter, r *http.Request, status int, name, title string, content any) {
	viewer, _ := signin.FromContext(r.Context())
	var out bytes.Buffer
	err := templates[name].ExecuteTemplate(&out, "layout", page{Title: title, Viewer: viewer, Section: name,
		Content: content})
	if err != nil {
		d.Logger.Error("dashboard: could not fill in a template", "template", name, "error", err)
		http.Error(w, failed.Sentence, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = visible.Writer(w).Write(out.Bytes()) // an error means that the client is gone
}

func fragment(name string, content any) (string, error) {
	var out strings.Builder
	err := templates["instance.html"].ExecuteTemplate(&out, name, content)
	return visible.Text(strings.TrimSpace(out.String())), err
}

// bytesText is for people: 1.5 MiB.
func bytesText(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/step, 0
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	for value >= step && unit < len(units)-1 {
		value, unit = value/step, unit+1
	}
	text := fmt.Sprintf("%.1f", value)
	return strings.TrimSuffix(text, ".0") + " " + units[unit]
}

func mebibytesText(n int) string { return bytesText(int64(n) << 20) }

// percent rounds down, so that nothing looks full too early. A whole of 0 means no limit.
func percent(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return part * 100 / whole
}

// timeText is for people without JavaScript. With it, browsers show their own time zone.
func timeText(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

// stampText is for JavaScript.
func stampText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// tookText is how long something took: 350 ms, 4.2 s, 3 m 20 s.
func tookText(from time.Time, to *time.Time) string {
	if to == nil {
		return ""
	}
	d := max(to.Sub(from), 0)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return spanText(d)
}

// spanText is for people: "3 m 20 s", "2 h 5 m", "4 d 3 h".
func spanText(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d m", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// shellText quotes a name, if it needs that, for a command that users copy into a shell.
func shellText(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
