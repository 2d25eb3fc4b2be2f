package main

import (
	"strings"
	"testing"
	"time"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	t.Parallel()
	var durations []time.Duration
	for n := range 200 { // 200 to 1 ms
		durations = append(durations, time.Duration(200-n)*time.Millisecond)
	}
	for p, want := range map[int]float64{0: 1, 50: 100, 95: 190, 99: 198, 100: 200} {
		if got := percentile(durations, p); got != want {
			t.Errorf("p%d is %v instead of %v", p, got, want)
		}
	}
	if got := percentile([]time.Duration{time.Second}, 99); got != 1000 {
		t.Errorf("p99 of one second alone is %v ms", got)
	}
}

func TestReportJudgesTheMedianRatio(t *testing.T) {
	t.Parallel()
	c := comparison{
		broker: []figures{{"x": 2}, {"x": 1}, {"x": 30}},
		raw:    []figures{{"x": 1}, {"x": 1}, {"x": 10}},
	}
	var r report
	r.add(c.row("x", Row{What: "too slow", Unit: "ms", Goal: atMost(1.9), Note: "a note"}))
	r.add(c.row("x", Row{What: "fast enough", Unit: "1/s", Goal: atLeast(2), Note: "a note"}))
	r.add(Row{What: "memory", Unit: "MB", Goal: &Goal{AtMost: 30, Unit: "MB"}, Broker: spreadOf([]float64{20})})
	r.add(Row{What: "for information", Broker: spreadOf([]float64{1, 2}), Detail: true})
	text := r.text()
	for _, line := range []string{
		"| too slow, ms (1)     |         | ≤ 1.90 ×  | 2.00 [1.00–30.0] | 1.00 [1.00–10.0] | 2.00 [1.00–3.00] | no  |",
		"| fast enough, 1/s (1) |         | ≥ 2.00 ×  | 2.00 [1.00–30.0] | 1.00 [1.00–10.0] | 2.00 [1.00–3.00] | yes |",
		"| memory, MB           |         | ≤ 30.0 MB | 20.0             | –                | –                | yes |",
		"| for information |         | –    | 1.50 [1.00–2.00] | –   | –     | –   |",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if n := strings.Count(text, "a note"); n != 1 {
		t.Errorf("the note is printed %d times", n)
	}
}
