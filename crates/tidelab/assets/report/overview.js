// The head of the page, what the run says in short, and the table of results.

function runFacts() {
  const one = run();
  const { machine } = one;
  const took = one.ended_unix_s > one.started_unix_s ? seconds(one.ended_unix_s - one.started_unix_s) : null;
  const when = date(one.started_unix_s);
  const facts = [
    [one.kind === "import" ? `imported ${when}` : when + (took ? `, ${took}` : ""), "started"],
    machine ? [`${machine.cpu}, ${machine.cpus} CPUs, ${bytes(machine.memory_bytes, number)}`, "machine"] : ["machine not known", "machine"],
    machine ? [`${machine.system}, ${machine.kernel}, ${machine.file_system}`, "system"] : null,
    [`${one.cells.length} measurements, ${one.rounds} ${one.rounds === 1 ? "round" : "rounds"}`, "size"],
    one.kind === "import" ? null : [one.tidelab ? `tidelab ${one.tidelab}, ${one.kind}` : one.kind, "kind"],
  ];
  return el("ul", { class: "facts" }, facts.filter(Boolean).map(([text, kind]) => el("li", { class: kind }, text)));
}

function drawTop(host) {
  const one = run();
  const themes = { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  const theme = document.documentElement.dataset.theme || "";
  const next = { "": "light", light: "dark", dark: "" }[theme];
  const setTheme = () => {
    if (next) document.documentElement.dataset.theme = next;
    else delete document.documentElement.dataset.theme;
    change(() => {});
  };
  const broken = one.failed.length;
  const alarms = [
    broken ? [el("a", { href: "#failures", on: { click: (event) => jump(event, "failures") } }, `${broken} of ${one.cells.length} measurements failed`),
      ": what they belong to has no figures here."] : null,
    one.ended_early ? `This run ended early: ${one.ended_early}.` : null,
    !one.ended_unix_s && !one.ended_early ? "This run is not finished: combinations are missing." : null,
    one.problems.length ? [`${one.problems.length} files of this run could not be read: `, one.problems.slice(0, 3).join("; ")] : null,
  ].filter(Boolean);
  fill(host,
    el("div", { class: "bar" },
      el("h1", {}, one.title),
      el("div", { class: "buttons" },
        button(themes[theme], "theme", setTheme),
        button("Print", "print", () => window.print()))),
    one.about ? el("p", { class: "about" }, one.about) : null,
    runFacts(),
    alarms.map((alarm) => el("p", { class: "alarm" }, alarm)),
    one.conditions.length ? el("p", { class: "conditions" }, one.conditions.join(" ")) : null,
    one.notes.length ? el("ul", { class: "notes" }, one.notes.map((note) => el("li", {}, note))) : null,
    el("nav", { "aria-label": "Parts" }, parts.filter((part) => part.there()).map((part) =>
      el("a", { href: "#" + part.id, on: { click: (event) => jump(event, part.id) } }, part.title))));
}

// The address keeps the choices, so that a jump must not replace it.
function jump(event, id) {
  event.preventDefault();
  document.getElementById(id)?.scrollIntoView({ behavior: "smooth" });
}

// For each competitor: in how many of the chosen combinations it is better, worse, not different from the reference.
function drawGlance(host) {
  const one = run();
  const m = metric();
  if (!m || one.competitor === null || one.axes[one.competitor].values.length < 2) return fill(host);
  const reference = labelText(one, one.competitor, one.reference);
  const rows = chosen(one.competitor).filter((at) => at !== one.reference).map((at) => {
    const groups = one.groups.filter((group) => shown(group) && group.l[one.competitor] === at);
    const ratios = groups.map((group) => group.q[state.metric]).filter(Boolean);
    const judgements = ratios.map((ratio) => judged(m, ratio));
    const sorted = ratios.map((ratio) => ratio[0]).sort((a, b) => a - b);
    const count = (what) => judgements.filter((j) => j === what).length;
    return {
      at, better: count(2), worse: count(1), same: count(0),
      failed: groups.filter(failed).length, open: groups.length - ratios.length - groups.filter(failed).length,
      above: ratios.filter((ratio) => ratio[0] > 1).length, below: ratios.filter((ratio) => ratio[0] < 1).length, low: sorted[0], high: sorted[sorted.length - 1],
    };
  });
  if (!rows.length) return fill(host);
  const lone = one.rounds < 3;
  const range = (row) => (row.low === undefined ? NONE : `${row.low.toFixed(2)} to ${row.high.toFixed(2)}`);
  const count = (title, key, mark) => ({ title, right: true, csv: (row) => row[key], mark: (row) => (row[key] ? mark : null) });
  const columns = [
    { title: run().axes[one.competitor].title, csv: (row) => labelText(one, one.competitor, row.at), show: (row) => competitorName(row.at) },
    ...(lone
      ? [count("above 1", "above", null), count("below 1", "below", null)]
      : [...(m.better === "neither" ? [] : [count("better", "better", "good"), count("worse", "worse", "bad")]), count("no difference", "same", null)]),
    { title: "ratios", right: true, csv: range },
    count("no ratio", "open", null),
    count("failed", "failed", "failed"),
  ];
  fill(host,
    el("p", {}, `${m.title} against ${reference}, over the chosen combinations. `,
      lone ? `There ${one.rounds < 2 ? "was one round" : "were two rounds"}: nobody knows which differences are noise.` :
        "A difference is one whose 98 % interval leaves out 1."),
    table("glance-" + m.name, columns, rows));
}

function competitorName(at) {
  return el("span", { class: "competitor" },
    el("span", { class: "swatch", style: { "border-top": `3px solid ${colourOf(at)}` } }),
    labelText(run(), run().competitor, at));
}

// A line for each chosen combination.
function drawResults(host) {
  const one = run();
  const groups = one.groups.filter(shown);
  // Competitors under each other where all else is equal.
  const rank = (group) => group.l.map((value, axis) => (axis === one.competitor ? -1 : value));
  const compare = (a, b) => {
    const [x, y] = [rank(a), rank(b)];
    const at = x.findIndex((value, place) => value !== y[place]);
    return at < 0 ? (one.competitor === null ? 0 : a.l[one.competitor] - b.l[one.competitor]) : x[at] - y[at];
  };
  groups.sort(compare);
  const labelled = one.axes.map((axis, at) => at).filter((at) => one.axes[at].values.length > 1 || at === one.competitor);
  labelled.sort((a, b) => (a === one.competitor) - (b === one.competitor));
  const metrics = one.metrics.map((m, at) => ({ m, at })).filter(({ m, at }) => at === state.metric || m.main)
    .filter(({ at }) => at === state.metric || groups.some((group) => group.s[at]))
    .sort((a, b) => (b.at === state.metric) - (a.at === state.metric));
  const greatest = Math.max(...groups.map((group) => group.s[state.metric]?.[0] ?? 0));
  const bar = (group, at) => {
    const spread = group.s[at];
    const share = at === state.metric && spread && greatest > 0 ? Math.max(0, spread[0] / greatest) * 100 : null;
    return [el("span", {}, spreadCell(spread, one.metrics[at].unit)),
      share === null ? null : el("span", { class: "meter" }, el("span", { style: { width: share + "%", background: one.competitor === null ? colourOf(0) : colourOf(group.l[one.competitor]) } }))];
  };
  const columns = [
    ...labelled.map((at) => ({
      title: one.axes[at].title, name: one.axes[at].name,
      csv: (group) => (isNumeric(one.axes[at]) ? Number(labelNumber(one.axes[at].values[group.l[at]])) : labelText(one, at, group.l[at])),
      show: (group) => (at === one.competitor ? competitorName(group.l[at]) : labelText(one, at, group.l[at])),
    })),
    ...metrics.flatMap(({ m, at }) => [
      { title: m.title + (m.unit && !isBytes(m.unit) ? ", " + m.unit : ""), name: m.name + "_median", right: true, csv: (group) => group.s[at]?.[0],
        show: (group) => (failed(group) ? el("span", { class: "failed", title: group.f.join("\n") }, at === state.metric && group.f.length ? `failed: ${group.f[0]}` : "failed") : bar(group, at)) },
      { title: "ratio", name: m.name + "_ratio", right: true, csv: (group) => group.q[at]?.[0],
        show: (group) => ratioCell(group.q[at]),
        mark: (group) => [null, "bad", "good"][judged(m, group.q[at])] },
    ]),
    { title: "Rounds", right: true, csv: (group) => group.n, show: (group) => `${group.n}${group.c.length < one.rounds || failed(group) ? " of " + one.rounds : ""}` },
    { title: "Raw", csv: (group) => group.c.map((at) => one.cells[at].d).join(" "), show: (group) => button("files", `raw.${group.l.join(".")}`, () => openPoint(group), { class: "quiet" }) },
  ];
  const reference = one.competitor === null ? null : labelText(one, one.competitor, one.reference);
  fill(host,
    el("p", {}, "Medians over rounds, with the least and the greatest. ",
      reference ? `Ratios are taken within rounds against ${reference}, with the 98 % interval of a bootstrap over rounds.` : ""),
    table("results", columns, groups, (group) => (failed(group) ? "failed" : null)));
}
