// Returns every text whose contrast with what is behind it is below 4.5.
const parse = (colour) => {
  const numbers = colour.match(/[\d.]+/g).map(Number);
  return [numbers[0], numbers[1], numbers[2], numbers.length > 3 ? numbers[3] : 1];
};
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
const behind = (element) => {
  if (!element) return parse(matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(18,18,18)" : "rgb(255,255,255)");
  const own = parse(getComputedStyle(element).backgroundColor);
  return own[3] === 1 ? own : over(own, behind(element.parentElement));
};
const light = (colour) => {
  const [r, g, b] = colour.slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const faint = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
  if (["title", "desc", "NOSCRIPT"].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  const back = behind(element);
  const front = over(parse(element.tagName === "text" ? style.fill : style.color), back);
  const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
  const contrast = (high + 0.05) / (low + 0.05);
  if (contrast < 4.5) faint.push(`${walker.currentNode.textContent.trim()}: ${contrast.toFixed(2)}`);
}
return faint;
