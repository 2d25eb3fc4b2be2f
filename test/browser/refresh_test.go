package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"mysql-broker/test/openid"
)

// holdAnswers delays each response to the page's script until the test releases it, in any order, and stores the
// structure in the last event.
const holdAnswers = `(() => {
	window.realFetch = fetch;
	window.asked = 0;
	window.answers = [];
	window.fetch = async (...what) => {
		asked += 1;
		const answer = await realFetch(...what);
		const text = await answer.text();
		await new Promise((letGo) => answers.push(letGo));
		return { ok: answer.ok, redirected: answer.redirected, text: async () => text };
	};
	const parse = JSON.parse;
	JSON.parse = (text) => {
		const told = parse(text);
		window.told = told.structure;
		return told;
	};
	return true;
})()`

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
