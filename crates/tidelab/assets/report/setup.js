// What was measured, with which settings, where, and how figures come about.

function drawSetup(host) {
  const one = run();
  fill(host, method(), machineTable(one), servers(one),
    el("details", {}, el("summary", {}, "Design: what was asked for"), el("pre", {}, JSON.stringify(one.design, null, 2))),
    axesTable(one), runFiles(one));
}

function method() {
  const rules = run().files.some((name) => name.startsWith("rules/"));
  return el("details", { open: true }, el("summary", {}, "How to read the figures"), el("ul", {},
    el("li", {}, "A figure is the median over the rounds; beside it stand the least and the greatest round."),
    el("li", {}, "A ratio is taken within each round between measurements that differ in the competitor alone. Shown are the median of these and a 98 % interval: the bootstrap over rounds of the trimmed mean of log ratios, widened by Student's t for few rounds. An interval that holds 1 is no difference; one round has none, and two decide nothing."),
    el("li", {}, "A measurement that failed its checks counts for nothing, and what it belongs to is shown as failed."),
    el("li", {}, "Percentile curves add the histograms of all rounds up; a value is the upper bound of its bucket."),
    rules ? el("li", {}, "Settings come from the rules that stand below, among the files of the run; each was read back from the running server, and a difference ends a run.") : null,
    el("li", {}, "Long series are drawn with fewer points that keep their extremes. No figure is taken from a drawn series.")));
}

function machineTable(one) {
  const { machine } = one;
  if (!machine) return el("p", { class: "hint" }, "The machine is not known.");
  const rows = Object.entries(machine).map(([name, value]) => ({ name, value }));
  const show = ({ name, value }) => (name.endsWith("_bytes") ? bytes(value, number) : String(value));
  return el("details", { open: true }, el("summary", {}, "Machine"),
    table("machine", [{ title: "Fact", csv: ({ name }) => name, show: ({ name }) => columnTitle(name) }, { title: "Value", csv: ({ value }) => value, show }], rows));
}

const onlyDifferent = { settings: false, variables: true };
const sought = { settings: "", variables: "" };

function servers(one) {
  const names = Object.keys(one.servers);
  if (!names.length) return null;
  const facts = table("servers", [
    { title: "Server", csv: (name) => name },
    { title: "Version", csv: (name) => one.servers[name].version },
    { title: "Installed in", csv: (name) => one.servers[name].prefix },
  ], names);
  return [
    el("details", { open: true }, el("summary", {}, "Servers"), facts),
    el("details", { open: true }, el("summary", {}, "Settings that were asked for, and what the server said of each when it ran"), valuesTable(one, names, "settings")),
    el("details", {}, el("summary", {}, "Variables as the servers had them"), valuesTable(one, names, "variables")),
  ];
}

// A setting with what the server said of it, where it said it in other words.
function readBackOther(server, key) {
  const back = server.read_back?.[key];
  return back !== undefined && back !== server.settings[key] ? back : null;
}

function settingText(server, which) {
  return (key) => (server[which][key] ?? "") + (which === "settings" && readBackOther(server, key) !== null ? ` (read back: ${readBackOther(server, key)})` : "");
}

function settingShown(server, which) {
  return (key) => [server[which][key] ?? "", which === "settings" && readBackOther(server, key) !== null ? el("small", {}, ` read back: ${readBackOther(server, key)}`) : null];
}

function valuesTable(one, names, which) {
  const host = el("div");
  const draw = () => {
    const all = [...new Set(names.flatMap((name) => Object.keys(one.servers[name][which])))].sort();
    const values = (key) => names.map((name) => one.servers[name][which][key]);
    const columns = [{ title: "Name", csv: (key) => key },
      ...names.map((name) => ({ title: name, csv: settingText(one.servers[name], which), show: settingShown(one.servers[name], which), mark: (key) => (new Set(values(key)).size > 1 ? "differs" : null) }))];
    const filtered = () => all.filter((key) => key.includes(sought[which]))
      .filter((key) => !onlyDifferent[which] || names.length < 2 || new Set(values(key)).size > 1);
    const search = el("input", { type: "search", placeholder: "Part of a name", "data-key": which + ".search", value: sought[which],
      on: { input: (event) => { sought[which] = event.target.value.toLowerCase(); body.replaceChildren(table(which, columns, filtered())); } } });
    const body = el("div", {}, table(which, columns, filtered()));
    fill(host, el("div", { class: "choices" }, search,
      names.length > 1 ? tick("Only where they differ", which + ".different", onlyDifferent[which], (on) => { onlyDifferent[which] = on; draw(); }) : null),
    body);
  };
  draw();
  return host;
}

function axesTable(one) {
  const axes = table("axes", [
    { title: "Label", csv: (axis) => axis.name }, { title: "Title", csv: (axis) => axis.title }, { title: "Role", csv: (axis) => axis.role },
    { title: "Values", csv: (axis) => axis.values.join(", ") },
  ], one.axes);
  const metrics = table("metrics", [
    { title: "Metric", csv: (m) => m.name }, { title: "Title", csv: (m) => m.title }, { title: "Unit", csv: (m) => m.unit },
    { title: "Better", csv: (m) => m.better },
  ], one.metrics);
  return el("details", {}, el("summary", {}, "Labels and metrics"), axes, metrics);
}

function runFiles(one) {
  if (!one.files.length) return null;
  return el("details", { open: Object.keys(one.texts).length > 0 }, el("summary", {}, "Files of the run: rules, option files, status"),
    one.files.map((name) => {
      const anchor = el("a", { href: link(one, name), target: "_blank", rel: "noopener" }, name);
      return one.texts[name] === undefined
        ? el("p", {}, anchor)
        : el("details", { class: "file", open: name.startsWith("rules/") }, el("summary", {}, name, " ", anchor), el("pre", {}, one.texts[name]));
    }));
}
