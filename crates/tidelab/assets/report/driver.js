// What driver and server reach without an engine, beside the best competitor's figures; see report/driver.rs.

function drawDriver(host) {
  const one = run();
  const lines = one.driver.filter((line) => line.labels.every((value, axis) => axis === one.competitor || !state.hidden[axis].has(value)));
  const yes = lines.filter((line) => line.driver).length;
  const percent = (share) => `${Math.round(share * 100)} %`;
  const labelled = one.axes.map((_, at) => at).filter((at) => at !== one.competitor && one.axes[at].values.length > 1);
  const columns = [
    ...labelled.map((at) => ({ title: one.axes[at].title, name: one.axes[at].name, csv: (line) => labelText(one, at, line.labels[at]) })),
    { title: "Figure", csv: (line) => one.metrics[line.metric].title },
    { title: "Best", csv: (line) => (one.competitor === null ? "" : labelText(one, one.competitor, line.labels[one.competitor])),
      show: (line) => (one.competitor === null ? NONE : competitorName(line.labels[one.competitor])) },
    { title: "reaches", right: true, csv: (line) => line.figure, show: (line) => quantity(line.figure, one.metrics[line.metric].unit) },
    { title: "Without an engine", csv: (line) => line.bounds.map(([what, value, share]) => `${what}: ${value} (${percent(share)})`).join("; "),
      show: (line) => line.bounds.map(([what, value, share]) => el("div", {}, `${percent(share)} of ${quantity(value, one.metrics[line.metric].unit)} `, el("small", {}, what))) },
    { title: "CPU of driver, us", right: true, csv: (line) => line.cpu_us[0], show: (line) => number(line.cpu_us[0]) },
    { title: "CPU of server, us", right: true, csv: (line) => line.cpu_us[1], show: (line) => number(line.cpu_us[1]) },
    { title: "Driver is the bottleneck", csv: (line) => (line.driver ? "yes" : "no"), mark: (line) => (line.driver ? "bad" : null) },
  ];
  fill(host,
    el("p", {}, `Yes where the best competitor reaches more than ${percent(one.near)} of the most that driver and server reach without an engine: `,
      `there a figure says more of them than of the engine. That is so for ${yes} of ${lines.length} combinations. `,
      "CPU time is that of a statement without an engine, of the fastest of these measurements; MEMORY locks whole tables, so that engines can be faster."),
    table("driver", columns, lines));
}
