package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/broker/signin"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

func TestShellText(t *testing.T) {
	for name, want := range map[string]string{
		"my-db_2.x":      "my-db_2.x",
		"--force":        "'--force'",
		"a b":            "'a b'",
		"x; rm -r $HOME": "'x; rm -r $HOME'",
		"it's":           `'it'\''s'`,
	} {
		assert.Equal(t, want, shellText(name), "%s is shown as", name)
	}
}

const mib = 1 << 20

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestPlotDrawsStepsAgainstTheQuota(t *testing.T) {
	t.Parallel()
	from := noon.Add(-24 * time.Hour)
	p := newPlot([]store.UsageSample{
		{At: from.Add(-3 * time.Hour), Bytes: 25 * mib}, // holds from the beginning
		{At: from.Add(12 * time.Hour), Bytes: 50 * mib},
		{At: noon, Bytes: 50 * mib},
	}, 100*mib, from, noon)
	// 192 units high and 656 wide, from 72 and 206: a quarter is 48 up, half of the time 328 along.
	assert.Equal(t, "M72 158H400V110H728V110H728", p.Line, "the line")
	assert.Equal(t, p.Line+"V206H72Z", p.Area, "the area")
	assert.True(t, p.QuotaY == 14 && p.LastX == 728 && p.LastY == 110,
		"the quota is at %g, the last point at %g, %g", p.QuotaY, p.LastX, p.LastY)
	assert.Equal(t, "0 B|25 MiB|50 MiB|75 MiB|100 MiB", labels(p.Y), "the axis of bytes")
	assert.Equal(t, "15:00|18:00|21:00|1 Mar|03:00|06:00|09:00|12:00", labels(p.X), "the axis of time")
	assert.Equal(t, "From 28 Feb, 12:00 UTC to 1 Mar, 12:00 UTC the data took between 25 MiB and 50 MiB; now they take 50 MiB.",
		p.Summary)
}

func labels(ticks []tick) string {
	var all []string
	for _, t := range ticks {
		all = append(all, t.Text)
	}
	return strings.Join(all, "|")
}

func TestPlotAxes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		used, quota int64
		span        time.Duration
		y, x        string
	}{
		{0, 0, time.Hour, "0 B|1 B", "11:15|11:30|11:45|12:00"},
		{1 << 30, 1 << 30, 7 * 24 * time.Hour, "0 B|256 MiB|512 MiB|768 MiB|1 GiB",
			"23 Feb|24 Feb|25 Feb|26 Feb|27 Feb|28 Feb|1 Mar"},
		{110 * mib, 100 * mib, 30 * 24 * time.Hour, "0 B|25 MiB|50 MiB|75 MiB|100 MiB|125 MiB", "4 Feb|9 Feb|14 Feb|19 Feb|24 Feb|1 Mar"},
		{10 << 30, 10 << 30, 24 * time.Hour, "0 B|2.5 GiB|5 GiB|7.5 GiB|10 GiB", "15:00|18:00|21:00|1 Mar|03:00|06:00|09:00|12:00"},
		{900 * mib, 0, time.Hour, "0 B|256 MiB|512 MiB|768 MiB|1 GiB", "11:15|11:30|11:45|12:00"},
	} {
		p := newPlot([]store.UsageSample{{At: noon, Bytes: tt.used}}, tt.quota, noon.Add(-tt.span), noon)
		assert.Equal(t, tt.y, labels(p.Y), "%d of %d", tt.used, tt.quota)
		assert.Equal(t, tt.x, labels(p.X), "%v", tt.span)
	}
}

// Of many samples, few are drawn, always with the largest and the last one.
func TestPlotThinsSamples(t *testing.T) {
	t.Parallel()
	from := noon.Add(-24 * time.Hour)
	var samples []store.UsageSample
	for n := range 100_000 {
		samples = append(samples, store.UsageSample{At: from.Add(time.Duration(n) * 24 * time.Hour / 100_000), Bytes: int64(n % 7)})
	}
	samples[50_000].Bytes = 99
	samples[99_999].Bytes = 3
	p := newPlot(samples, 0, from, noon)
	n := strings.Count(p.Line, "V")
	assert.True(t, n <= plotColumns+1, "%d steps are drawn", n)
	assert.True(t, len(p.Points) <= tableRows && p.Points[0].Bytes == 3,
		"the table has %d rows and begins with %+v", len(p.Points), p.Points[0])
	assert.Regexp(t, "between [63] B and 99 B; now they take 3 B", p.Summary)
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 100 * mib: "100 MiB",
		1<<40 + 1<<39: "1.5 TiB", 1 << 60: "1048576 TiB"} {
		assert.Equal(t, want, bytesText(n), "%d", n)
	}
	for d, want := range map[time.Duration]string{-time.Second: "0 ms", 350 * time.Millisecond: "350 ms",
		4200 * time.Millisecond: "4.2 s", 200 * time.Second: "3 m 20 s", 2*time.Hour + 5*time.Minute: "2 h 5 m",
		99 * time.Hour: "4 d 3 h"} {
		ended := noon.Add(d)
		assert.Equal(t, want, tookText(noon, &ended), "%v", d)
	}
	assert.True(t, percent(99, 100) == 99 && percent(999, 1000) == 99 && percent(5, 0) == 0,
		"percentages are not rounded down")
}

func TestMoodFollowsTheLevelsOfTheQuota(t *testing.T) {
	t.Parallel()
	since := time.Now()
	for _, tt := range []struct {
		storage storage
		mood    string
	}{
		{storage{Bytes: 0, Quota: 1000}, "good"},
		{storage{Bytes: 799, Quota: 1000}, "good"},
		{storage{Bytes: 800, Quota: 1000}, "warn"},
		{storage{Bytes: 999, Quota: 1000}, "warn"},
		{storage{Bytes: 1000, Quota: 1000}, "bad"},
		{storage{Bytes: 960, Quota: 1000, OverSince: &since}, "bad"},
		{storage{Bytes: 1000}, "good"}, // where there is no quota
	} {
		assert.Equal(t, tt.mood, mood(tt.storage), "%+v", tt.storage)
	}
}

// troubled is a launcher all of whose servers are in the trouble that is their name.
type troubled struct {
	launcher.Launcher
	err error
}

func (l troubled) Troubles(context.Context) (map[string]launcher.Trouble, error) {
	return map[string]launcher.Trouble{string(launcher.NoNode): launcher.NoNode, "another": "another"}, l.err
}

// The page counts free space as the quota does, and does not compare PostgreSQL's clock with that of this host.
func TestStorageIsThatOfTheQuota(t *testing.T) {
	t.Parallel()
	for files, want := range map[int64]int64{440: 440, 799: 799, 800: 730} {
		s := storage{Quota: 1000, Bytes: 1, At: noon.Add(time.Hour)}
		s.update(steps.Inspection{})
		assert.True(t, s.Bytes == 1 && !s.Known, "without a response: %+v", s)
		s.update(steps.Inspection{At: noon, Size: mysqladmin.Size{Files: files, Reusable: 70}})
		assert.True(t, s.Bytes == want && s.Known && s.At == noon, "files of %d: %+v", files, s)
	}
	s := storage{Quota: 1000, OverSince: &noon}
	s.update(steps.Inspection{At: noon, Size: mysqladmin.Size{Files: 440, Reusable: 70}})
	assert.EqualValues(t, 370, s.Bytes, "over the quota")
}

// The page of an instance whose server does not respond says why, if its launcher knows.
func TestSilence(t *testing.T) {
	t.Parallel()
	d := &Dashboard{Config: Config{AnswerTime: time.Minute, Logger: slog.New(slog.DiscardHandler),
		Fleet: fleet.New(fleet.Config{Launchers: map[string]launcher.Launcher{"kubernetes": troubled{},
			"silent": troubled{err: errors.New("the launcher does not respond either")}}})}}
	for _, tt := range []struct{ launcher, server, want string }{
		{"kubernetes", string(launcher.NoNode), troubles[launcher.NoNode]},
		{"silent", string(launcher.NoNode), noAnswer},
		{"kubernetes", "another", noAnswer},
	} {
		i := store.Instance{Location: store.DedicatedLocation(tt.launcher, tt.server)}
		got := d.silence(t.Context(), i)
		assert.True(t, got == tt.want && got != "", "of %q, the page says %q", tt.server, got)
	}
}

// A request that fails because the session ended gets a response. One whose client has left gets none.
func TestFailAtTheEndOfTheSession(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	d := New(Config{Logger: log, SignIn: signin.New(signin.Config{ExternalURL: &url.URL{Scheme: "https", Host: "broker"},
		Logger: log})})
	defer d.Close()
	over, stop := context.WithDeadline(t.Context(), time.Now())
	defer stop()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, tt := range []struct {
		ctx    context.Context
		status int
		empty  bool
	}{{over, http.StatusServiceUnavailable, false}, {gone, http.StatusOK, true}} {
		answer := httptest.NewRecorder()
		d.fail(answer, httptest.NewRequestWithContext(tt.ctx, "GET", "/dashboard/", nil), "show a page", tt.ctx.Err())
		assert.True(t, answer.Code == tt.status && (answer.Body.Len() == 0) == tt.empty,
			"%v is answered %d: %q", tt.ctx.Err(), answer.Code, answer.Body)
	}
}
