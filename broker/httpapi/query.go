package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkQuery refuses a malformed query with 400; net/http would drop the pairs that it cannot parse. It normalises
// accepts_incomplete to `true` or `false`, which all handlers of brokerapi read in the same way. OSB API 2.9,
// "Asynchronous Operations".
func checkQuery(w http.ResponseWriter, r *http.Request, next http.Handler) {
	query, fault := parseQuery(r.URL.RawQuery)
	if fault != "" {
		refuse(w, r, http.StatusBadRequest, "query-malformed", fault)
		return
	}
	callFrom(r.Context()).operation = clip(query.Get("operation"))
	r.Form = query // most of brokerapi's handlers read the form
	if query.Has("accepts_incomplete") {
		u := *r.URL
		u.RawQuery = query.Encode()
		r.URL = &u
	}
	next.ServeHTTP(w, r)
}

// parseQuery returns the query with accepts_incomplete normalised, or a sentence that says what is wrong with it.
func parseQuery(raw string) (query url.Values, fault string) {
	if strings.Contains(raw, ";") {
		return nil, `The query holds a ";" that is not escaped as %3B.`
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, `The query holds a "%" that is not followed by two hexadecimal digits.`
	}
	for _, values := range query {
		all := strings.Join(values, "")
		if !utf8.ValidString(all) || strings.ContainsFunc(all, unicode.IsControl) {
			return nil, "A value in the query holds a control character or is not valid UTF-8."
		}
	}
	if query.Has("accepts_incomplete") {
		accepts, err := strconv.ParseBool(strings.ToLower(query.Get("accepts_incomplete")))
		if err != nil {
			return nil, "The query's accepts_incomplete must be true or false."
		}
		query.Set("accepts_incomplete", strconv.FormatBool(accepts))
	}
	return query, ""
}
