// The chosen metric along any axis: curves over numbers, bars over names, lines over versions. Axes that are neither
// the x nor the lines make charts of their own.

const FACETS = 8;

function kindOfX(x) {
  const axis = run().axes[x];
  return isNumeric(axis) ? "number" : "category";
}

// A point of a group, in the metric with this place.
function pointOf(group, at, x) {
  const spread = group.s[at];
  const m = run().metrics[at];
  const rounds = `${group.n} ${group.n === 1 ? "round" : "rounds"}`;
  return failed(group)
    ? { x, failed: true, group, tip: `failed: ${group.f.join("; ")}` }
    : { x, y: spread?.[0], low: spread?.[1], high: spread?.[2], group, tip: spread ? `${spreadText(spread, m.unit)}, ${rounds}` : "" };
}

// One chart of a metric: labels fix all axes but x and lines (-1 for one line).
function curve(id, fixed, x, lines, options) {
  const one = run();
  const m = one.metrics[options.metric];
  const xAxisOf = one.axes[x];
  const kind = kindOfX(x) === "number" && !options.asNames ? "number" : "category";
  const places = chosen(x);
  // Competitors along the axis keep their colours: each is a line of one point.
  const single = lines < 0 && x === one.competitor && !options.joined;
  const lineValues = single ? places : lines >= 0 ? chosen(lines) : [null];
  const bars = kind === "category" && options.bars && !options.logY;
  const spread = kind === "category" && !options.joined;
  const half = single ? 0.4 : 0.4 / lineValues.length;
  const made = lineValues.map((value, nth) => {
    const points = places.flatMap((place, at) => {
      if (single && place !== value) return [];
      // Lines lead from version to version of one family, not from one family to the next.
      const apart = options.joined && at > 0 && family(xAxisOf.values[places[at - 1]]) !== family(xAxisOf.values[place]);
      return [...(apart ? [{ x: at - 0.5, gap: true }] : []), ...pointAt(place, at)];
    });
    function pointAt(place, at) {
      const labels = one.axes.map((_, axis) => fixed.get(axis) ?? 0);
      labels[x] = place;
      if (lines >= 0) labels[lines] = value;
      const group = groupAt(one, labels);
      if (!group || (!failed(group) && !group.s[options.metric])) return [];
      const step = spread && !single ? (nth - (lineValues.length - 1) / 2) * 2 * half : 0;
      return [pointOf(group, options.metric, kind === "number" ? labelNumber(xAxisOf.values[place]) : at + step)];
    }
    const byStep = lines >= 0 && lines !== one.competitor && one.axes[lines].role === "number";
    const colour = single ? colourOf(value) : lines < 0 ? colourOf(0) : byStep ? stepColour(nth, lineValues.length) : colourOf(value);
    const name = single ? labelText(one, x, value) : lines < 0 ? m.title : (byStep ? countText(one, lines, value) : labelText(one, lines, value));
    return { name, colour, dash: lines >= 0 && !byStep ? dashOf(value) : [], points };
  }).filter((line) => line.points.some((point) => !point.gap));
  const labels = kind === "number" ? places.map((place) => xAxisOf.values[place]).sort((a, b) => labelNumber(a) - labelNumber(b)) : null;
  const numbers = labels?.map(labelNumber);
  const wide = numbers && numbers.length > 2 && numbers[0] > 0 && numbers[numbers.length - 1] / numbers[0] >= 16;
  return chart({
    id,
    title: `${m.title}${m.unit ? ", " + m.unit : ""}`,
    subtitle: options.subtitle,
    x: {
      kind, title: xAxisOf.title, values: numbers, labels,
      log: kind === "number" && numbers[0] > 0 && (options.logX === "auto" ? wide : options.logX === "log"),
      names: kind === "category" ? places.map((place) => labelText(one, x, place)) : null,
    },
    y: { unit: m.unit, log: options.logY },
    bars: bars ? half : null,
    apart: spread,
    lines: made,
    named: lines >= 0,
    pick: openPoint,
    height: options.height,
  });
}

// One chart for each combination of the axes that are left.
function facets(host, id, used, draw) {
  const one = run();
  const rest = one.axes.map((_, axis) => axis).filter((axis) => !used.includes(axis));
  const all = combinations(rest).map((pairs) => new Map(pairs))
    .filter((fixed) => one.groups.some((group) => shown(group) && [...fixed].every(([axis, value]) => group.l[axis] === value)));
  const open = state.allFacets.has(id);
  const visible = open ? all : all.slice(0, FACETS);
  const drawn = visible.map((fixed, at) => {
    const labels = one.axes.map((_, axis) => fixed.get(axis) ?? 0);
    return draw(`${id}-${at}`, fixed, titleOf(one, labels, used));
  });
  add(host, [
    el("div", { class: drawn.length > 1 ? "facets several" : "facets" }, drawn),
    all.length > visible.length
      ? el("p", { class: "more" }, `${visible.length} of ${all.length} charts. `,
        button("Show all", id + ".all", () => change(() => state.allFacets.add(id))))
      : null,
  ]);
}

function axisChoices(without, none) {
  const named = run().axes.map((axis, at) => [at, axis.title]).filter(([at]) => at !== without);
  return none ? [...named, [-1, none]] : named;
}

function drawCurves(host) {
  if (!metric()) return fill(host, el("p", { class: "hint" }, "This run names no metrics."));
  const { x } = state;
  const lines = state.lines === x ? -1 : state.lines;
  const names = kindOfX(x) === "category";
  fill(host, el("div", { class: "choices" },
    metricChoice("curves.metric"),
    choice("Along", "curves.x", axisChoices(-1), x, (value) => change(() => {
      const next = Number(value);
      if (next === state.lines) state.lines = state.x;
      state.x = next;
    })),
    choice("Lines", "curves.lines", axisChoices(x, "none"), lines, (value) => change(() => { state.lines = Number(value); })),
    names
      ? choice("Drawn as", "curves.drawn", [["auto", "bars"], ["line", "points"]], state.drawn === "line" ? "line" : "auto",
        (value) => change(() => { state.drawn = value; }))
      : choice("Scale below", "curves.logx", [["auto", "as it fits"], ["log", "logarithmic"], ["linear", "linear"]], state.logX,
        (value) => change(() => { state.logX = value; })),
    tick("Logarithmic figures", "curves.logy", state.logY, (on) => change(() => { state.logY = on; }))));
  facets(host, "curve-" + metric().name, [x, lines], (id, fixed, subtitle) =>
    curve(id, fixed, x, lines, {
      metric: state.metric, subtitle, logX: state.logX, logY: state.logY, bars: state.drawn !== "line",
    }));
}

// Competitors in their order, as versions of one family: a line for each value of another axis.
function drawProgression(host) {
  const { competitor, axes } = run();
  const lines = state.progress === competitor ? -1 : state.progress;
  fill(host, el("p", {}, `${axes[competitor].title} in order. Figures of the points are medians, the lines between them only lead the eye.`),
    el("div", { class: "choices" },
      metricChoice("progress.metric"),
      choice("Lines", "progress.lines", axisChoices(competitor, "none"), lines, (value) => change(() => { state.progress = Number(value); }))));
  facets(host, "progression-" + metric().name, [competitor, lines], (id, fixed, subtitle) =>
    curve(id, fixed, competitor, lines, { metric: state.metric, subtitle, logX: "auto", joined: true, asNames: true }));
}
