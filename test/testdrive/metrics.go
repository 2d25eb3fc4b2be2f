package testdrive

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Metrics maps time series to values, both as Prometheus writes them.
type Metrics map[string]string

// Scrape reads /metrics, which is open to anyone.
func (b *Broker) Scrape(t testing.TB) Metrics {
	t.Helper()
	answer, err := http.Get(b.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := Metrics{}
	for line := range strings.Lines(string(text)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			m[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return m
}

// Int fails the test if there is no such series.
func (m Metrics) Int(t testing.TB, series string) int {
	t.Helper()
	n, err := strconv.ParseFloat(m[series], 64)
	if err != nil {
		t.Fatalf("%s: %v", series, err)
	}
	return int(n)
}

// ExpectFigures compares time series, written as Prometheus does, with what /metrics shows.
func ExpectFigures(t *testing.T, p Platform, want map[string]string) {
	t.Helper()
	for _, sentence := range Differences(p.Scrape(t), want) {
		t.Error(sentence)
	}
}

func Differences(shown Metrics, want map[string]string) (sentences []string) {
	for series, value := range want {
		if shown[series] != value {
			sentences = append(sentences, fmt.Sprintf("%s is %q instead of %q", series, shown[series], value))
		}
	}
	return sentences
}
