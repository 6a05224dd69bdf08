// One colour for a competitor in every chart. The first eight can be told apart with any kind of colour vision.

const PALETTES = {
  light: ["#0b6fb8", "#d9730d", "#0f8a5f", "#b0488f", "#7a5c00", "#5b53c9", "#c0392b", "#4a7d8c", "#6b8e23", "#8a5a44"],
  dark: ["#58a9ee", "#f09a4a", "#3fc795", "#e08cc6", "#d3b544", "#a29bf5", "#f28374", "#7fbccd", "#a9cc5a", "#c99a83"],
};
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

function dark() {
  const asked = document.documentElement.dataset.theme;
  return asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function colourOf(index) {
  const palette = PALETTES[dark() ? "dark" : "light"];
  return palette[index % palette.length];
}

function dashOf(index) {
  return DASHES[Math.floor(index / PALETTES.light.length) % DASHES.length];
}

// For values in an order, as threads: from pale to strong.
function stepColour(index, count) {
  const share = count > 1 ? index / (count - 1) : 1;
  const [from, to] = dark() ? [45, 82] : [68, 26];
  return `hsl(${210 + 80 * share}, 62%, ${from + (to - from) * share}%)`;
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
