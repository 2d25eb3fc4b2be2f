(() => {
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
})()
