package dashboard

import (
	"net/http"
	"slices"
	"time"

	"mysql-broker/provisioner/doctor"
)

// shownFindings limits the list: more findings than that have a common cause.
const shownFindings = 500

type findingsPage struct {
	Problem, Kind, Server    string
	Problems, Kinds, Servers []string
	Rows                     []doctor.Finding
	Count                    int
	Examined                 time.Time
}

// findings shows the findings of the last examination.
func (d *Dashboard) findings(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p := findingsPage{Problem: query.Get("problem"), Kind: query.Get("kind"), Server: query.Get("server")}
	all, examined := d.Findings()
	p.Examined = examined
	choice := func(choices []string, one string) []string {
		if one == "" || slices.Contains(choices, one) {
			return choices
		}
		return append(choices, one)
	}
	for _, f := range all {
		p.Problems, p.Kinds = choice(p.Problems, string(f.Problem)), choice(p.Kinds, f.Kind)
		p.Servers = choice(p.Servers, f.Server)
		if p.Problem != "" && p.Problem != string(f.Problem) || p.Kind != "" && p.Kind != f.Kind ||
			p.Server != "" && p.Server != f.Server {
			continue
		}
		if p.Count++; p.Count <= shownFindings {
			p.Rows = append(p.Rows, f)
		}
	}
	d.show(w, r, http.StatusOK, "findings.html", "Findings", p)
}
