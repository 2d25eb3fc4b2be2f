package dashboard

import (
	"fmt"
	"math"
	"strings"
	"time"

	"mysql-broker/store"
)

// The plot's own units; browsers scale it to the page.
const (
	plotWidth, plotHeight           = 760, 240
	plotLeft, plotRight             = 72, 728 // half a label fits beside it
	plotTop, plotBottom             = 14, 206
	plotColumns                     = 240 // as many points are drawn at most
	tableRows                       = 24  // in the table with the same data
	dateLabel, timeLabel, longLabel = "2 Jan", "15:04", "2 Jan, 15:04 UTC"
)

// plot is an SVG line of bytes over time, with its axes.
type plot struct {
	Width, Height, Left, Right, Top, Bottom int

	Line, Area string // of paths
	LastX      float64
	LastY      float64
	QuotaY     float64 // 0 if there is none
	Quota      int64
	X, Y       []tick
	Summary    string // for people who cannot see it
	Points     []store.UsageSample
}

// tick is a mark on an axis.
type tick struct {
	At   float64
	Text string
	Time time.Time // set for hours, which browsers show in the viewer's time zone; else zero
}

// newPlot draws samples between two times; they are sorted by time. A sample is valid until the next one, because
// unchanged samples are not stored. A sample from before the start is valid from the start.
func newPlot(samples []store.UsageSample, quota int64, from, to time.Time) *plot {
	samples = thinned(samples, from, to)
	p := &plot{Width: plotWidth, Height: plotHeight, Left: plotLeft, Right: plotRight, Top: plotTop, Bottom: plotBottom,
		Quota: quota}
	top := quota
	least, most := int64(math.MaxInt64), int64(0)
	for _, s := range samples {
		least, most = min(least, s.Bytes), max(most, s.Bytes)
	}
	step := tickStep(max(top, most, 1))
	for value := int64(0); ; value += step {
		p.Y = append(p.Y, tick{Text: bytesText(value)})
		if top = value; value >= max(quota, most) && value > 0 {
			break
		}
	}
	x := func(t time.Time) float64 {
		return round(plotLeft + float64(plotRight-plotLeft)*float64(t.Sub(from))/float64(to.Sub(from)))
	}
	y := func(bytes int64) float64 {
		return round(plotBottom - float64(plotBottom-plotTop)*float64(bytes)/float64(top))
	}
	for n := range p.Y {
		p.Y[n].At = y(int64(n) * step)
	}
	if quota > 0 {
		p.QuotaY = y(quota)
	}
	p.X = timeTicks(from, to, x)
	p.trace(samples, x, y, to)
	last := samples[len(samples)-1].Bytes
	p.Summary = fmt.Sprintf("From %s to %s the data took between %s and %s; now they take %s.",
		from.UTC().Format(longLabel), to.UTC().Format(longLabel), bytesText(least), bytesText(most), bytesText(last))
	p.Points = tabled(samples)
	return p
}

// trace returns two paths: the steps, and the steps closed along the axis.
func (p *plot) trace(samples []store.UsageSample, x func(time.Time) float64, y func(int64) float64, to time.Time) {
	var line strings.Builder
	for n, s := range samples {
		if n == 0 {
			fmt.Fprintf(&line, "M%g %g", x(s.At), y(s.Bytes))
		} else {
			fmt.Fprintf(&line, "H%gV%g", x(s.At), y(s.Bytes))
		}
	}
	p.LastX, p.LastY = x(to), y(samples[len(samples)-1].Bytes)
	fmt.Fprintf(&line, "H%g", p.LastX)
	p.Line = line.String()
	p.Area = fmt.Sprintf("%sV%dH%gZ", p.Line, plotBottom, x(samples[0].At))
}

// thinned keeps the largest of the samples in one column of the plot, and moves the last sample from before the start
// to the start.
func thinned(samples []store.UsageSample, from, to time.Time) []store.UsageSample {
	var kept []store.UsageSample
	column := -1
	for _, s := range samples {
		if s.At.Before(from) {
			s.At = from
		}
		if s.At.After(to) {
			s.At = to
		}
		c := int(plotColumns * s.At.Sub(from) / (to.Sub(from)))
		switch n := len(kept); {
		case n == 0 || c != column:
			kept, column = append(kept, s), c
		case s.At.Equal(from) || s.Bytes >= kept[n-1].Bytes:
			kept[n-1].Bytes = s.Bytes
		}
	}
	if n := len(samples); n > 0 { // a larger sample just before never hides the current one
		if last := samples[n-1]; kept[len(kept)-1].Bytes != last.Bytes {
			last.At = to
			kept = append(kept, last)
		}
	}
	return kept
}

// tabled returns some samples at even distances, including the last one.
func tabled(samples []store.UsageSample) []store.UsageSample {
	each := (len(samples) + tableRows - 1) / tableRows
	var some []store.UsageSample
	for n := len(samples) - 1; n >= 0; n -= each {
		some = append(some, samples[n])
	}
	return some // the newest first
}

// tickStep divides bytes into two to five steps of round numbers.
func tickStep(most int64) int64 {
	unit := int64(1)
	for unit*1024 <= most {
		unit *= 1024
	}
	quarter := max(unit/4, 1)
	for _, factor := range []int64{1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500} {
		if step := factor * quarter; most <= 5*step {
			return step
		}
	}
	return 256 * unit
}

// timeSteps are the possible distances of ticks. Ticks a day or more apart are at midnight, UTC.
var timeSteps = []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour,
	24 * time.Hour, 5 * 24 * time.Hour}

// timeTicks marks up to eight round moments.
func timeTicks(from, to time.Time, x func(time.Time) float64) (ticks []tick) {
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if to.Sub(from)/s <= 8 {
			step = s
			break
		}
	}
	format := timeLabel
	if step >= 24*time.Hour {
		format = dateLabel
	}
	for t := from.UTC().Truncate(step).Add(step); !t.After(to); t = t.Add(step) {
		mark := tick{At: x(t), Text: t.Format(format)}
		if step < 24*time.Hour {
			mark.Time = t
		}
		if mark.Text == "00:00" {
			mark.Text = t.Format(dateLabel)
		}
		ticks = append(ticks, mark)
	}
	return ticks
}

func round(v float64) float64 { return math.Round(v*10) / 10 }
