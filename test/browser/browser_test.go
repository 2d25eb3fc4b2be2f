// Package browser tests the dashboard in a real browser: Debian's chromium. Screenshots are kept in the directory that
// ARTEFACTS names.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/admit"
	"mysql-broker/test/limits"
	"mysql-broker/test/openid"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// tab is one of a browser of its own. Whatever the console complains of fails the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// newTab starts a browser that ends with the test.
func newTab(t *testing.T) *tab {
	admit.Enter(t, admit.Browser)
	program, err := exec.LookPath("chromium")
	require.NoError(t, err, "%v; deploy/dev/install-packages.sh test installs it", err)
	profile, err := os.MkdirTemp("", "mbc")
	require.NoError(t, err)
	t.Cleanup(func() {
		testdrive.Eventually(t, "the browser's profile is gone", func() bool { // some of its processes end later
			return os.RemoveAll(profile) == nil
		})
	})
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(profile),
		chromedp.NoSandbox, // which root, and most containers, cannot have
		chromedp.WindowSize(1200, 900), chromedp.WSURLReadTimeout(limits.Stuck))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocator)
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		closeTab()
		end()
		chromedp.FromContext(ctx).Allocator.Wait()
	})
	b.begin()
	return b
}

// another opens one more tab of the same browser, in front of the others.
func (b *tab) another() *tab {
	ctx, closeTab := chromedp.NewContext(b.ctx)
	b.t.Cleanup(closeTab)
	one := &tab{t: b.t, ctx: ctx}
	one.begin()
	return one
}

func (b *tab) begin() {
	chromedp.ListenTarget(b.ctx, b.hear)
	b.do(emulation.SetTimezoneOverride("Europe/Vienna"), emulation.SetLocaleOverride().WithLocale("en-GB"))
	b.t.Cleanup(func() {
		assert.Empty(b.t, b.heard(), "what the console says")
		if b.t.Failed() {
			b.screenshot("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
		}
	})
}

// hear collects errors, warnings and violations of the content security policy.
func (b *tab) hear(event any) {
	complaint := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning || e.Type == runtime.APITypeAssert {
			complaint = fmt.Sprintf("%s %v", e.Type, e.Args)
		}
	case *log.EventEntryAdded:
		// Of the provider's own page, browsers ask for an icon that it has not.
		if (e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning) && !strings.HasSuffix(e.Entry.URL, "/favicon.ico") {
			complaint = fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
	if complaint != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, complaint)
	}
}

// heard returns the complaints since it was last called.
func (b *tab) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.complaints
	b.complaints = nil
	return was
}

// forgive forgets complaints about a response of one address.
func (b *tab) forgive(status, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = slices.DeleteFunc(b.complaints, func(c string) bool {
		return strings.Contains(c, status) && strings.HasSuffix(c, "("+address+")")
	})
}

func (b *tab) do(actions ...chromedp.Action) {
	ctx, cancel := context.WithTimeout(b.ctx, limits.Stuck)
	defer cancel()
	// The first call makes the tab, whose life is that of the context given to it.
	if chromedp.FromContext(b.ctx).Target == nil {
		ctx = b.ctx
	}
	require.NoError(b.t, chromedp.Run(ctx, actions...))
}

// eval runs JavaScript and returns its value.
func eval[T any](b *tab, script string) (value T) {
	b.do(chromedp.Evaluate(script, &value))
	return value
}

// await polls a JavaScript expression until it is true.
func (b *tab) await(what, condition string) {
	for deadline := time.Now().Add(limits.Stuck); !eval[bool](b, "Boolean("+condition+")"); {
		if time.Now().After(deadline) {
			require.Fail(b.t, what, "not within %v; the page says:\n%s", limits.Stuck, b.text("body"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// text is what a person reads in an element.
func (b *tab) text(selector string) string {
	return eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

func (b *tab) open(address string) { b.do(chromedp.Navigate(address)) }

// follow clicks on what leads to another page, and returns once that is loaded with its style sheet. It tells a page
// from one with the same address.
func (b *tab) follow(selector string, by chromedp.QueryOption) {
	ctx, cancel := context.WithTimeout(b.ctx, limits.Stuck)
	defer cancel()
	_, err := chromedp.RunResponse(ctx, chromedp.Click(selector, by))
	require.NoError(b.t, err, "follow %s", selector)
}

// signIn opens a page of the dashboard as a person does: through the provider's own page.
func (b *tab) signIn(address, person string) {
	b.do(chromedp.Navigate(address),
		chromedp.SendKeys(`input[name="username"]`, person, chromedp.ByQuery),
		chromedp.SendKeys(`input[name="password"]`, openid.Password, chromedp.ByQuery),
		chromedp.Submit(`input[name="password"]`, chromedp.ByQuery),
		chromedp.WaitVisible("#content", chromedp.ByQuery))
}

// theme has the browser prefer light or dark pages.
func (b *tab) theme(name string) {
	b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}))
}

// screenshot keeps a picture of the whole page.
func (b *tab) screenshot(name string) {
	var picture []byte
	ctx, cancel := context.WithTimeout(b.ctx, limits.Stuck)
	defer cancel()
	dir := os.Getenv("ARTEFACTS")
	if !assert.NoError(b.t, chromedp.Run(ctx, chromedp.FullScreenshot(&picture, 100)), "take a picture") || dir == "" {
		return
	}
	assert.NoError(b.t, os.MkdirAll(dir, 0o755))
	assert.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
}

func TestMain(m *testing.M) { servers.Main(m) }
