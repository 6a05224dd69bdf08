// The choices: run, metric, and for each axis the values that are shown.

// The page is drawn anew after each press, so that two presses are told from the time between them.
const lastPress = { key: "", at: 0 };
const METRIC_KINDS = [[true, "Main"], [false, "Details"]];

function metricChoice(key) {
  const { metrics } = run();
  const select = el("select", { "data-key": key, on: { change: (event) => change(() => { state.metric = Number(event.target.value); }) } },
    METRIC_KINDS.map(([main, title]) => {
      const options = metrics.map((m, at) => [m, at]).filter(([m]) => m.main === main);
      return options.length
        ? el("optgroup", { label: title }, options.map(([m, at]) =>
          el("option", { value: at, selected: at === state.metric }, m.title + (m.unit ? `, ${m.unit}` : ""))))
        : null;
    }));
  return el("label", { class: "choice" }, el("span", {}, "Metric"), select);
}

// What comes before the version in a name.
function family(name) {
  return name.split(/[\s\-_]*[0-9]/)[0].trim();
}

// Whether some of the names are versions of one family.
function versions(names) {
  const heads = names.map(family);
  return new Set(heads).size < heads.length;
}

// Names that begin alike, as versions of one family: a way to choose many at once.
function families(values) {
  const found = new Map();
  values.forEach((value, at) => {
    const head = family(value);
    if (head) found.set(head, [...(found.get(head) || []), at]);
  });
  const several = [...found].filter(([, members]) => members.length > 1);
  return found.size > 1 && several.length ? [...found] : [];
}

function axisFilter(axis, at) {
  const hidden = state.hidden[at];
  const only = (kept) => change(() => {
    state.hidden[at] = new Set(axis.values.map((_, value) => value).filter((value) => !kept.includes(value)));
  });
  const toggle = (value) => {
    const key = `${at}.${value}`;
    if (lastPress.key === key && performance.now() - lastPress.at < 350) return only([value]);
    Object.assign(lastPress, { key, at: performance.now() });
    return toggleOne(value);
  };
  const toggleOne = (value) => change(() => {
    hidden.has(value) ? hidden.delete(value) : hidden.add(value);
    // Nothing chosen would show nothing: the last one stays.
    if (hidden.size === axis.values.length) hidden.delete(value);
  });
  const mark = at === run().competitor
    ? (value) => el("span", { class: "swatch", style: { "border-top": `3px ${dashOf(value).length ? "dashed" : "solid"} ${colourOf(value)}` } })
    : () => null;
  return el("fieldset", { class: "axis" },
    el("legend", {}, axis.title,
      axis.values.length > 1
        ? button("all", `axis.${at}.all`, () => only(axis.values.map((_, value) => value)), { class: "quiet", disabled: hidden.size === 0 })
        : null),
    families(axis.values).map(([head, members]) =>
      button("only " + head, `axis.${at}.only.${head}`, () => only(members), { class: "family" })),
    el("div", { class: "values" }, axis.values.map((value, place) =>
      button([mark(place), value || "(none)"], `axis.${at}.${place}`, () => toggle(place),
        { class: "value", "aria-pressed": String(!hidden.has(place)), title: "Twice: only this" }))));
}

function drawFilters(host) {
  const open = host.querySelector("details")?.open ?? matchMedia("(min-width: 900px)").matches;
  const runs = page.runs.length > 1
    ? choice("Run", "run", page.runs.map((one, at) => [at, `${one.title} (${date(one.started_unix_s)})`]), state.run,
      (value) => change(() => resetRun(Number(value))))
    : null;
  const counted = run().groups.filter(shown).length;
  fill(host, el("details", { open },
    el("summary", {}, "What is shown", el("span", { class: "count" }, `${counted} of ${run().groups.length} combinations`)),
    runs,
    metricChoice("metric"),
    run().axes.map(axisFilter),
    button("Show everything", "reset", () => change(() => {
      const { metric: kept } = state;
      resetRun(state.run);
      state.metric = kept;
    }), { class: "reset" })));
}
