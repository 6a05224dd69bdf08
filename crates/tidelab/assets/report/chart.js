// A chart with its title, legend, tooltip and picture, drawn by uPlot.
//
// A chart is: id, title, subtitle, x {kind: number|category|time|share, title, unit, log, names}, y {title, unit, log},
// bars (half the width of one), height, sync (charts that share cursor, time and legend), below (it has no legend of its
// own), pick (what a click on a point's group does), and lines {name, colour, dash, points: [{x, y, low, high, failed,
// tip, group}]} or, for many points, {name, colour, dash, times, values}.

const charts = new Set();
const hiddenLines = new Map();
const LINES = 40;
// Lines of a time chart that are drawn at first: more hide each other.
const TIMES = 8;

function sweepCharts() {
  for (const one of charts) {
    if (one.figure.isConnected) continue;
    one.observer.disconnect();
    one.plot?.destroy();
    charts.delete(one);
  }
}

function chart(spec) {
  const left = spec.lines.length - LINES;
  if (left > 0) spec = { ...spec, lines: spec.lines.slice(0, LINES) };
  const shared = spec.sync || spec.id;
  if (!hiddenLines.has(shared)) {
    hiddenLines.set(shared, new Set(spec.sync ? spec.lines.slice(TIMES).map((line) => line.name) : []));
  }
  const off = hiddenLines.get(shared);
  const host = el("div", { class: "plot" });
  const one = { figure: null, plot: null, observer: null, spec, shared };
  const legend = spec.lines.map((line, at) => {
    const key = `${spec.id}.line.${at}`;
    const pressed = (event) => {
      const item = event.currentTarget;
      off.has(line.name) ? off.delete(line.name) : off.add(line.name);
      item.setAttribute("aria-pressed", String(!off.has(line.name)));
      for (const other of charts) {
        const place = other.shared === shared ? other.spec.lines.findIndex((its) => its.name === line.name) : -1;
        if (place >= 0) other.plot?.setSeries(place + 1, { show: !off.has(line.name) });
      }
    };
    return button([el("span", { class: "swatch", style: { "border-top": `3px ${line.dash?.length ? "dashed" : "solid"} ${line.colour}` } }), line.name],
      key, pressed, { class: "entry", "aria-pressed": String(!off.has(line.name)) });
  });
  const some = spec.lines.some((line) => line.values || line.points.length);
  one.figure = el("figure", { class: "chart", "data-chart": spec.id },
    el("figcaption", {}, el("span", { class: "name" }, spec.title), spec.subtitle ? el("span", { class: "sub" }, spec.subtitle) : null,
      some ? button("PNG", spec.id + ".png", () => chartPicture(spec, off), { class: "quiet", title: "Save as a picture" }) : null),
    (spec.lines.length > 1 || spec.named) && !spec.below ? el("div", { class: "legend" }, legend) : null,
    spec.sync && !spec.below && spec.lines.length > TIMES ? el("p", { class: "hint" }, `More than ${TIMES} lines hide each other: press a name to see or hide its line.`) : null,
    left > 0 ? el("p", { class: "hint" }, `${left} more lines are not drawn: choose fewer on the left.`) : null,
    some ? host : el("p", { class: "hint" }, "Nothing was measured here."));
  if (!some) return one.figure;
  one.observer = new ResizeObserver(() => {
    const width = Math.floor(host.clientWidth);
    if (!width) return;
    if (one.plot) {
      if (one.plot.width !== width) one.plot.setSize({ width, height: one.plot.height });
    } else {
      const { options, data } = plotOf(spec, off, width, spec.height || (width < 500 ? 260 : 320), 1);
      options.plugins = [tooltip(spec)];
      one.plot = new uPlot(options, data, host);
      host.setAttribute("role", "img");
      host.setAttribute("aria-label", spec.title + (spec.subtitle ? ", " + spec.subtitle : ""));
    }
  });
  one.observer.observe(host);
  charts.add(one);
  return one.figure;
}

// Places on the x axis that all lines share; each line's values there.
function aligned(spec) {
  if (spec.lines[0]?.values) {
    const lists = spec.lines.map((line) => [line.times, line.values]);
    return lists.length === 1 ? lists[0] : uPlot.join(lists);
  }
  const xs = [...new Set(spec.lines.flatMap((line) => line.points.map((point) => point.x)))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, at) => [x, at]));
  return [xs, ...spec.lines.map((line) => {
    // What was not measured is led over; null, for what failed, breaks the line.
    const values = new Array(xs.length).fill(undefined);
    for (const point of line.points) {
      const drawn = !point.failed && Number.isFinite(point.y) && !(spec.y.log && point.y <= 0);
      values[place.get(point.x)] = drawn ? point.y : null;
    }
    return values;
  })];
}

function plotOf(spec, off, width, height, scale) {
  const data = aligned(spec);
  const font = `${12 * scale}px ${FONT}`;
  const soft = css("--text-soft");
  const grid = { stroke: css("--grid"), width: scale };
  const ticks = { stroke: css("--grid"), width: scale, size: 5 * scale };
  const axis = { stroke: soft, font, grid, ticks, gap: 6 * scale, labelFont: font };
  const bars = spec.bars ? barPaths(spec) : null;
  const series = spec.lines.map((line) => ({
    label: line.name,
    show: !off.has(line.name),
    stroke: line.colour,
    width: (bars ? 1 : line.values ? 1.25 : 2) * scale,
    dash: bars ? undefined : line.dash?.map((length) => length * scale),
    fill: bars ? line.colour + "b0" : undefined,
    paths: bars || (spec.apart ? () => null : undefined),
    spanGaps: Boolean(line.values),
    points: { show: !bars && !line.values && spec.x.kind !== "share", size: 7 * scale, fill: line.colour, stroke: line.colour },
  }));
  const yAxis = spec.y.log
    ? { splits: (_, __, min, max) => logSplits(min, max), filter: (_, all) => all, values: (_, all) => all.map((v) => tickText(v, spec.y.unit)) }
    : { values: (_, all) => tickTexts(all, spec.y.unit) };
  const below = xAxis(spec, width, scale);
  const options = {
    width, height: height + (below.taller || 0),
    legend: { show: false },
    padding: [10 * scale, 14 * scale, 0, below.room || 0],
    cursor: {
      y: false,
      drag: { x: spec.x.kind === "time", y: false },
      sync: spec.sync ? { key: spec.sync } : undefined,
      points: { size: 9 },
    },
    scales: { x: xScale(spec, data[0]), y: yScale(spec, off) },
    series: [{}, ...series],
    axes: [
      { ...axis, ...below, label: spec.x.title || undefined, labelSize: spec.x.title ? 20 * scale : 0, labelGap: 2 * scale },
      { ...axis, ...yAxis, space: 34 * scale, size: (_, texts) => yWidth(texts, scale, spec.x.kind === "time" ? (width < 500 * scale ? 6 : 8) : 3) },
    ],
    hooks: { draw: [(plot) => drawSpreads(plot, spec, scale)] },
  };
  return { options, data };
}

// 1, 2, 5, 10, ...; only powers of ten over a long way.
function logSplits(min, max) {
  const all = [];
  const steps = max / min > 3e4 ? [1] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power++) {
    all.push(...steps.map((step) => Number((step * 10 ** power).toPrecision(3))));
  }
  return all.filter((value) => value >= min && value <= max);
}

// Charts below each other have the same `least` room, so that their times stand below each other.
function yWidth(texts, scale, least) {
  const longest = Math.max(least, ...(texts || []).map((text) => (text ? String(text).length : 0)));
  return (longest * 7 + 16) * scale;
}

function xScale(spec, xs) {
  const { kind, log } = spec.x;
  if (kind === "time") return { time: false, range: (_, min, max) => [min ?? 0, max ?? 1] };
  if (kind === "category") return { time: false, range: [-0.6, spec.x.names.length - 0.4] };
  if (kind === "share") return { time: false, distr: 3, log: 10, range: [1, Math.max(100, xs[xs.length - 1] * 1.2)] };
  const [min, max] = [xs[0] ?? 0, xs[xs.length - 1] ?? 1];
  if (log) return { time: false, distr: 3, log: 2, range: [min / 1.12, max * 1.12] };
  const room = (max - min || 1) * 0.04;
  return { time: false, range: [min - room, max + room] };
}

function yScale(spec, off) {
  const range = (_, least, greatest) => {
    let [min, max] = [least ?? Infinity, greatest ?? -Infinity];
    for (const line of spec.lines) {
      if (off.has(line.name)) continue;
      for (const point of line.points || []) {
        if (point.failed || point.gap) continue;
        const low = point.low ?? point.y;
        if (Number.isFinite(point.high)) max = Math.max(max, point.high);
        if (Number.isFinite(low) && !(spec.y.log && low <= 0)) min = Math.min(min, low);
      }
    }
    if (!Number.isFinite(min) || !Number.isFinite(max)) return spec.y.log ? [1, 10] : [0, 1];
    if (spec.y.log) {
      min = Math.max(min, max / 1e9);
      return max / min < 3 ? [min / 2, max * 2] : [min / 1.25, max * 1.25];
    }
    return [Math.min(0, min * 1.05), max > 0 ? max * 1.06 : 1];
  };
  return spec.y.log ? { distr: 3, log: 10, range } : { range };
}

function xAxis(spec, width, scale) {
  const { kind, names, log, values } = spec.x;
  if (kind === "category") {
    const most = width < 420 * scale ? 16 : 22;
    // The end of a long name tells versions apart.
    const texts = names.map((name) => (name.length > most ? name.slice(0, 6) + "…" + name.slice(7 - most) : name));
    const longest = Math.max(...texts.map((text) => text.length));
    const turned = texts.length * (longest * 6.6 + 12) * scale > width - 60 * scale;
    const every = Math.ceil((texts.length * 15 * scale) / width);
    return {
      splits: () => names.map((_, at) => at),
      values: () => texts.map((text, at) => (turned && at % every ? "" : text)),
      rotate: turned ? 45 : 0,
      room: turned ? Math.max(0, texts[0].length * 5.4 * scale - 44 * scale - width / names.length / 2) : 0,
      taller: turned ? longest * 3 * scale : 0,
      size: (turned ? longest * 4.8 + 22 : 30) * scale,
      grid: { show: false },
      ticks: { show: false },
    };
  }
  if (kind === "share") {
    const at = [1, 2, 4, 10, 20, 100, 1e3, 1e4, 1e5, 1e6, 1e7];
    const texts = ["", "50 %", "75 %", "90 %", "95 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %", ""];
    const narrow = width < 600 * scale;
    const shownAt = (plot, i) => at[i] <= plot.scales.x.max / 2 && !(narrow && (i === 2 || i === 4)) && !(width < 420 * scale && i > 5 && i % 2 === 0);
    return { splits: () => at, filter: (_, all) => all, values: (plot) => texts.map((text, i) => (shownAt(plot, i) ? text : "")), size: 30 * scale };
  }
  if (values && values.length <= 14) {
    const last = Math.max(...values);
    const near = (a, b) => Math.abs(a - b) / (last - values[0] || 1) < (width < 500 * scale ? 0.09 : 0.035);
    const crowded = (at) => !log && at > 0 && near(values[at], values[at - 1]);
    return { splits: () => values, filter: (_, all) => all, values: () => values.map((v, at) => (crowded(at) ? "" : spec.x.labels[at])), size: 30 * scale };
  }
  return { values: (_, splits) => splits.map((v) => (v === null ? null : tickText(v, spec.x.unit))), space: 50 * scale, size: 30 * scale };
}

function barPaths(spec) {
  const half = spec.bars;
  return (plot, seriesAt, from, to) => {
    const path = new Path2D();
    const [xs, ys] = [plot.data[0], plot.data[seriesAt]];
    const zero = plot.valToPos(Math.max(0, plot.scales.y.min), "y", true);
    for (let i = from; i <= to; i++) {
      if (ys[i] === null || ys[i] === undefined) continue;
      const [left, right] = [plot.valToPos(xs[i] - half, "x", true), plot.valToPos(xs[i] + half, "x", true)];
      const top = plot.valToPos(ys[i], "y", true);
      path.rect(left, top, right - left, zero - top);
    }
    return { stroke: path, fill: path };
  };
}

// Least to greatest round as a line through each point, and a red cross where there is none because it failed.
function drawSpreads(plot, spec, scale) {
  const { ctx: context, bbox } = plot;
  const unit = scale * devicePixelRatio;
  context.save();
  context.beginPath();
  context.rect(bbox.left - 8 * unit, bbox.top, bbox.width + 16 * unit, bbox.height + 1);
  context.clip();
  const crosses = new Map();
  spec.lines.forEach((line, at) => {
    if (!plot.series[at + 1].show || !line.points) return;
    for (const point of line.points) {
      const x = plot.valToPos(point.x, "x", true);
      if (point.failed) {
        const above = crosses.get(point.x) || 0;
        crosses.set(point.x, above + 1);
        const y = bbox.top + bbox.height - (10 + above * 14) * unit;
        context.strokeStyle = css("--bad");
        context.lineWidth = 2.5 * unit;
        context.beginPath();
        for (const [dx, dy] of [[-5, -5], [5, -5]]) {
          context.moveTo(x + dx * unit, y + dy * unit);
          context.lineTo(x - dx * unit, y - dy * unit);
        }
        context.stroke();
      } else if (point.low < point.high && !(spec.y.log && point.low <= 0)) {
        const [low, high] = [plot.valToPos(point.low, "y", true), plot.valToPos(point.high, "y", true)];
        context.strokeStyle = spec.bars ? css("--text") : line.colour;
        context.lineWidth = 1.5 * unit;
        context.beginPath();
        context.moveTo(x, low);
        context.lineTo(x, high);
        for (const y of [low, high]) {
          context.moveTo(x - 4 * unit, y);
          context.lineTo(x + 4 * unit, y);
        }
        context.stroke();
      }
    }
  });
  context.restore();
}

function tooltip(spec) {
  const box = el("div", { class: "tip", hidden: true });
  const entries = (plot) => {
    const at = plot.cursor.idx;
    if (at === null || at === undefined) return null;
    const visible = spec.lines.map((line, place) => ({ line, place })).filter(({ place }) => plot.series[place + 1].show);
    if (spec.x.kind === "category") {
      const category = Math.round(plot.posToVal(plot.cursor.left, "x"));
      if (!spec.x.names[category]) return null;
      const found = visible.flatMap(({ line }) => line.points.filter((p) => !p.gap && Math.round(p.x) === category).map((point) => ({ line, point })));
      return { head: spec.x.names[category], found };
    }
    const x = plot.data[0][at];
    const found = visible.flatMap(({ line, place }) => {
      if (!line.points) {
        const y = plot.data[place + 1][at];
        return y === null || y === undefined ? [] : [{ line, point: { x, y } }];
      }
      return line.points.filter((point) => point.x === x).map((point) => ({ line, point }));
    });
    return { head: spec.x.tip ? spec.x.tip(x) : `${spec.x.labels?.[spec.x.values.indexOf(x)] ?? number(x)} ${spec.x.title || ""}`, found };
  };
  const show = (plot) => {
    const there = plot.cursor.event ? entries(plot) : null;
    if (!there || !there.found.length) {
      box.hidden = true;
      return;
    }
    there.found.sort((a, b) => (b.point.y ?? -Infinity) - (a.point.y ?? -Infinity));
    const rows = there.found.slice(0, 16).map(({ line, point }) =>
      el("tr", { class: point.failed ? "failed" : null },
        el("td", {}, el("span", { class: "swatch", style: { "border-top": `3px solid ${line.colour}` } }), line.name),
        el("td", { class: "right" }, point.failed ? point.tip || "failed" : point.tip || quantity(point.y, spec.y.unit))));
    fill(box, el("b", {}, there.head), el("table", {}, rows), spec.pick ? el("p", {}, "Click for rounds and raw files") : null);
    box.hidden = false;
    const [wide, over] = [box.offsetWidth, plot.over.clientWidth];
    const right = plot.cursor.left + 14 + wide < over;
    const x = right ? plot.cursor.left + 14 : Math.max(-40, plot.cursor.left - wide - 14);
    box.style.transform = `translate(${x}px, ${Math.max(0, Math.min(plot.cursor.top, plot.over.clientHeight - box.offsetHeight))}px)`;
  };
  const pick = (plot) => () => {
    const there = spec.pick ? entries(plot) : null;
    const near = there?.found.filter(({ point }) => point.group).map(({ line, point }) => {
      const y = point.failed ? plot.over.clientHeight : plot.valToPos(point.y, "y");
      const x = plot.valToPos(point.x, "x");
      return { point, far: Math.hypot(y - plot.cursor.top, x - plot.cursor.left), line };
    }).sort((a, b) => a.far - b.far)[0];
    if (near) spec.pick(near.point.group);
  };
  return {
    hooks: {
      ready: (plot) => {
        plot.over.append(box);
        plot.over.addEventListener("mouseleave", () => { box.hidden = true; });
        if (spec.pick) {
          plot.over.classList.add("pick");
          plot.over.addEventListener("click", pick(plot));
        }
      },
      setCursor: show,
    },
  };
}

function chartPicture(spec, off) {
  const aside = el("div", { class: "off-screen" });
  document.body.append(aside);
  const { options, data } = plotOf(spec, off, PICTURE.width - 2 * PICTURE.margin, 840, 2);
  const legend = spec.lines.filter((line) => !off.has(line.name)).map((line) => [line.colour, line.dash || [], line.name]);
  const drawn = (plot) => {
    const height = plot.ctx.canvas.height / devicePixelRatio;
    const head = { title: spec.title, subtitle: spec.subtitle, legend: spec.lines.length > 1 || spec.named ? legend : [] };
    savePicture(spec.id, head, height, (context, top) =>
      context.drawImage(plot.ctx.canvas, PICTURE.margin, top, PICTURE.width - 2 * PICTURE.margin, height));
    plot.destroy();
    aside.remove();
  };
  // One turn later the canvas is painted.
  options.hooks.ready = [(plot) => setTimeout(() => drawn(plot), 50)];
  new uPlot(options, data, aside);
}
