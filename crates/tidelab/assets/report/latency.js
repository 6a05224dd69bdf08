// Latencies: percentile curves from histograms, and the figures p50 to max that cells have.

const FIGURE = /^(?:(.*)_)?(min|avg|average|mean|p[0-9]+|max)_(ns|us|ms|s)$/;
const ORDER = { min: -3, avg: -2, average: -2, mean: -2, max: 1e9 };

// What latencies there are: name to its histogram, its figures, or both.
function latencySources() {
  const sources = new Map();
  const source = (name, unit) => {
    const key = name || "all";
    if (!sources.has(key)) sources.set(key, { key, unit, histogram: null, figures: [] });
    return sources.get(key);
  };
  for (const group of run().groups) {
    for (const name of Object.keys(group.h)) {
      const title = columnTitle(name);
      source(title, columnUnit(name)).histogram = name;
    }
  }
  run().metrics.forEach((m, at) => {
    const found = FIGURE.exec(m.name);
    if (!found) return;
    const title = columnTitle((found[1] || "").replace(/_?latency$/, ""));
    const place = ORDER[found[2]] ?? Number("0." + found[2].slice(1)) * 100;
    source(title, m.unit).figures.push({ at, place, name: found[2], unit: m.unit });
  });
  // Figures without a name are those of the only histogram.
  const drawn = [...sources.values()].filter((one) => one.histogram);
  const nameless = sources.get("all");
  if (drawn.length === 1 && nameless && nameless !== drawn[0] && !drawn[0].figures.length) {
    drawn[0].figures = nameless.figures;
    sources.delete("all");
  }
  for (const one of sources.values()) one.figures.sort((a, b) => a.place - b.place);
  return [...sources.values()].filter((one) => one.histogram || one.figures.length > 1);
}

// Choices for the axes that one chart fixes.
function focusChoices(key) {
  const one = run();
  return one.axes.map((axis, at) => {
    if (at === one.competitor || axis.values.length < 2) return null;
    return choice(axis.title, `${key}.at.${at}`, chosen(at).map((value) => [value, labelText(one, at, value)]), state.focus[at],
      (value) => change(() => { state.focus[at] = Number(value); }));
  });
}

function focusGroups() {
  const one = run();
  const competitors = one.competitor === null ? [null] : chosen(one.competitor);
  return competitors.map((value) => {
    const labels = state.focus.map((label, axis) => (axis === one.competitor ? value : label));
    return { value, group: groupAt(one, labels) };
  }).filter(({ group }) => group);
}

function competitorLine(value) {
  return value === null
    ? { name: run().title, colour: colourOf(0), dash: [] }
    : { name: labelText(run(), run().competitor, value), colour: colourOf(value), dash: dashOf(value) };
}

function focusTitle() {
  const { competitor } = run();
  return titleOf(run(), state.focus, [competitor]);
}

function drawLatency(host) {
  const sources = latencySources();
  const source = sources.find((one) => one.key === state.latency) || sources.find((one) => one.histogram) || sources[0];
  if (!source) return fill(host);
  const groups = focusGroups();
  const broken = groups.filter(({ group }) => failed(group));
  fill(host,
    el("div", { class: "choices" },
      sources.length > 1
        ? choice("Latency of", "latency.of", sources.map((one) => [one.key, one.key]), source.key, (value) => change(() => { state.latency = value; }))
        : null,
      focusChoices("latency")),
    broken.map(({ value, group }) => el("p", { class: "alarm" }, `${competitorLine(value).name} failed here: `, group.f.join("; "))));
  const charts = el("div", { class: "facets several" });
  if (source.histogram) add(charts, [percentiles(source, groups)]);
  if (source.figures.length > 1) add(charts, [figuresChart(source, groups)]);
  add(host, [charts, source.figures.length ? figuresTable(source, groups) : null]);
}

function percentiles(source, groups) {
  // Milliseconds are read more easily.
  const [unit, factor] = source.unit === "µs" ? ["ms", 1000] : source.unit === "ns" ? ["ms", 1e6] : [source.unit, 1];
  const lines = groups.filter(({ group }) => group.h[source.histogram]).map(({ value, group }) => {
    const [count, text] = group.h[source.histogram];
    const values = decoded(text).map((value) => value / factor);
    const last = values.length - 1;
    const points = values.map((y, k) => ({
      x: k === last ? Math.max(count, 2 ** (k / 4)) : 2 ** (k / 4), y, group,
      tip: `${quantity(y, unit)} within which ${k === last ? "all" : percentText(k)} stay`,
    }));
    return { ...competitorLine(value), points };
  });
  return chart({
    id: "latency-" + source.key,
    title: latencyTitle(source, unit),
    subtitle: [focusTitle(), "all rounds together"].filter(Boolean).join(" · "),
    x: { kind: "share", title: "share of calls that were at most so slow", tip: (x) => `${((1 - 1 / x) * 100).toFixed(x > 1e4 ? 4 : 2)} %` },
    y: { unit, log: true },
    lines, named: true,
  });
}

function latencyTitle(source, unit) {
  return (source.key === "all" ? "Latency" : `Latency of ${source.key}`) + `, ${unit}`;
}

function percentText(k) {
  return ((1 - 2 ** (-k / 4)) * 100).toFixed(k > 50 ? 4 : k > 26 ? 2 : 1) + " %";
}

function figuresChart(source, groups) {
  const lines = groups.map(({ value, group }) => ({
    ...competitorLine(value),
    points: source.figures.flatMap(({ at }, place) =>
      failed(group) || !group.s[at] ? [] : [pointOf(group, at, place)]),
  }));
  return chart({
    id: "latency-figures-" + source.key,
    title: latencyTitle(source, source.figures[0].unit),
    subtitle: [focusTitle(), "medians over rounds"].filter(Boolean).join(" · "),
    x: { kind: "category", names: source.figures.map(({ name }) => name) },
    y: { unit: source.figures[0].unit, log: true },
    lines, named: true, pick: openPoint,
  });
}

function figuresTable(source, groups) {
  const one = run();
  const columns = [
    { title: one.competitor === null ? "Run" : one.axes[one.competitor].title, csv: ({ value }) => competitorLine(value).name },
    ...source.figures.map(({ at, name, unit }) => ({
      title: `${name}, ${unit}`, right: true, csv: ({ group }) => group.s[at]?.[0],
      show: ({ group }) => (failed(group) ? el("span", { class: "failed" }, "failed") : spreadCell(group.s[at], unit)),
    })),
  ];
  return table("latency-" + source.key, columns, groups);
}
