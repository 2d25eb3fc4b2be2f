(() => {
	const parse = (color) => color.match(/[\d.]+/g).map(Number);
	const luminance = ([r, g, b]) => {
		const [x, y, z] = [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * x + 0.7152 * y + 0.0722 * z;
	};
	const behind = (element) => {
		for (let e = element; e; e = e.parentElement) {
			const color = parse(getComputedStyle(e).backgroundColor);
			if (color.length === 3 || color[3] === 1) return color;
		}
		return [255, 255, 255];
	};
	const bad = [];
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const element = texts.currentNode.parentElement;
		if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
		const style = getComputedStyle(element);
		const color = parse(element.closest("svg") ? style.fill : style.color);
		const [light, dark] = [luminance(color), luminance(behind(element))].sort((a, b) => b - a);
		const ratio = (light + 0.05) / (dark + 0.05);
		if (ratio < 4.5) bad.push(texts.currentNode.data.trim() + ": " + ratio.toFixed(2));
	}
	return bad;
})()
