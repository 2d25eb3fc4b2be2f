package browser

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/openid"
)

// restShows is a condition for what a page keeps up to date to hold a text.
func restShows(text string) string {
	return fmt.Sprintf(`document.getElementById("rest").innerText.includes(%q)`, text)
}

// checkPlot looks for a line with steps up, drawn as large as the page allows, below the line of the quota.
func checkPlot(t *testing.T, b *tab) {
	t.Helper()
	b.do(chromedp.WaitVisible("svg.plot", chromedp.ByQuery))
	line := eval[string](b, `document.querySelector("svg.plot .line").getAttribute("d")`)
	heights := strings.Split(line, "V")[1:]
	slices.Sort(heights)
	assert.True(t, len(slices.Compact(heights)) >= 3, "the line of the plot is %s", line)
	width := eval[float64](b, `document.querySelector("svg.plot").getBoundingClientRect().width`)
	assert.False(t, width < 600, "the plot is %g pixels wide", width)
	// The plot is there before the page's script has run.
	b.await("the hours of the plot are the viewer's", `[...document.querySelectorAll("svg.plot [data-time]")].every(tick => {
		const at = new Date(tick.dataset.time);
		return tick.textContent.includes(at.getHours() === 0 ? at.getDate() : at.getHours());
	})`)
	for selector, want := range map[string]string{"svg.plot": "100 MiB", "svg.plot .quota-label": "Quota"} {
		assert.Contains(t, eval[string](b, fmt.Sprintf("document.querySelector(%q).textContent", selector)), want, selector)
	}
	assert.NotEqual(t, "none", eval[string](b, `getComputedStyle(document.querySelector("svg.plot .line")).stroke`),
		"the line is not drawn")
	assert.True(t, eval[bool](b, `[...document.querySelectorAll("svg.plot .middle")].every((label) =>
		document.querySelector("svg.plot .grid").x2.baseVal.value + label.getBBox().width / 2 <= 760)`),
		"a label at the right end would be cut")
	b.do(emulation.SetDeviceMetricsOverride(390, 800, 1, true))
	at := eval[float64](b, `document.querySelector("svg.plot .now").getBoundingClientRect().right`)
	assert.False(t, at < 300 || at > 390, "on a screen of 390 pixels, the newest point is at %g", at)
	b.do(emulation.ClearDeviceMetricsOverride())
}

// lowContrast lists texts that are hard to read against what is behind them. WCAG 2.2 asks for 4.5 : 1.
// https://www.w3.org/TR/WCAG22/#contrast-minimum
//
//go:embed testdata/contrast.js
var lowContrast string

func checkContrast(t *testing.T, b *tab, theme string) {
	t.Helper()
	b.await("the style sheet", `document.readyState === "complete"`)
	back := eval[string](b, "getComputedStyle(document.body).backgroundColor")
	var r, g, blue int
	_, err := fmt.Sscanf(back, "rgb(%d, %d, %d)", &r, &g, &blue)
	assert.True(t, err == nil && (r+g+blue > 380) == (theme == "light"), "the %s theme has the background %s", theme, back)
	assert.Empty(t, eval[[]string](b, lowContrast), "%s theme, too little contrast", theme)
}

// checkKeyboard goes through the page by the tab key: everything that can be used is reached, in the order in which it is
// read, and shows that it has the focus.
func checkKeyboard(t *testing.T, b *tab) {
	eval[bool](b, "(document.activeElement.blur(), scrollTo(0, 0), true)")
	usable := eval[[]string](b, `[...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
		.filter((e) => e.checkVisibility()).map((e, n) => { e.dataset.usable = n; return e.tagName + " " + e.innerText.slice(0, 20); })`)
	for n, what := range usable {
		b.do(chromedp.KeyEvent(kb.Tab))
		got := eval[string](b, "document.activeElement.dataset.usable ?? document.activeElement.tagName")
		require.Equal(t, fmt.Sprint(n), got, "the tab key went to %s where %d, %s, is next", got, n, what)
		assert.NotEqual(t, "none", eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"),
			"%s does not show that it has the focus", what)
	}
	eval[bool](b, `(document.querySelector(".skip").focus(), true)`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("the jump to the content", `document.activeElement.id === "content"`)
	eval[bool](b, `(document.querySelector("summary").focus(), true)`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("the table of the plot", `document.querySelector("details").open`)
	b.do(chromedp.KeyEvent(kb.Enter))
	for _, question := range []struct{ what, script string }{
		{"headings skip a level or there is not one h1", `(() => {
			const levels = [...document.querySelectorAll("h1, h2, h3")].map((h) => Number(h.tagName[1]));
			return levels.filter((l) => l === 1).length === 1 && levels.every((l, n) => n === 0 ? l === 1 : l <= levels[n - 1] + 1);
		})()`},
		{"a landmark is missing", `["header", "main"].every((l) => document.querySelectorAll(l).length === 1)`},
		{"an element has no name", `[...document.querySelectorAll("section, nav, [role=region]")].every((e) =>
			e.ariaLabel || document.getElementById(e.getAttribute("aria-labelledby"))?.innerText)`},
		{"a header cell has no scope", `[...document.querySelectorAll("th")].every((e) => e.scope)`},
		{"an id is used twice", `new Set([...document.querySelectorAll("[id]")].map((e) => e.id)).size ===
			document.querySelectorAll("[id]").length`},
		{"the page has no language", `document.documentElement.lang === "en"`},
	} {
		assert.True(t, eval[bool](b, question.script), question.what)
	}
}

// holdAnswers delays each response to the page's script until the test releases it, in any order, and stores the
// structure in the last event.
//
//go:embed testdata/holdanswers.js
var holdAnswers string

// structureNow is the structure that an event would have now.
const structureNow = `(async () => {
	const page = await (await realFetch(location.href)).text();
	return new DOMParser().parseFromString(page, "text/html").getElementById("instance").dataset.structure;
})()`

// A response to an earlier request that arrives last does not replace a newer one.
func TestAnswersOutOfOrder(t *testing.T) {
	t.Parallel()
	i, b := openOrders(t, openid.Developer)
	eval[bool](b, holdAnswers)
	i.bind(t, "", "read-only")
	b.await("an answer", "answers.length > 0")
	last, _ := i.bind(t, "", "read-only")
	var now string
	b.do(chromedp.Evaluate(structureNow, &now, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	b.await("that the page knows of the last binding", fmt.Sprintf("told === %q", now))
	b.await("the answers that it asked for", "answers.length === asked")
	shows := restShows(last)
	eval[bool](b, "(window.fetch = realFetch, answers.pop()(), true)")
	b.await("the last binding", shows)
	eval[bool](b, "(answers.forEach((letGo) => letGo()), true)")
	assert.True(t, eval[bool](b, shows), "an older answer has taken the place of the newest")
}
