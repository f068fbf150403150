// Where compile time went, and what went TVM's way.

const MOST_PASSES = 14;

function drawTimes(parent) {
  parent.replaceChildren(...drawRun(), ...drawPasses(), ...drawPlans());
}

/** A call of the model, where it was profiled. */
function drawRun() {
  if (!profile?.measured) return [];
  const rows = [
    ["on the device", profile.total_us],
    ["between launches", profile.gaps_us],
    ["as the host sees it", profile.host_us],
  ].filter(([, us]) => us !== null);
  const longest = Math.max(...rows.map(([, us]) => us));
  return [
    element("h3", {}, "A call"),
    element("p", {}, `${profile.how}, the median of ${counted(profile.calls, "call")}.`),
    element("div", { class: "bars wide" }, ...rows.flatMap(([name, us]) => bar(name, us, longest, micros(us)))),
  ];
}

function drawPasses() {
  const passes = report.passes;
  const title = element("h3", {}, "Compiling");
  if (!passes.length) return [title, element("p", { class: "muted" }, "The time of passes was not taken.")];
  const shown = passes.slice(0, MOST_PASSES);
  const total = d3.sum(passes, (each) => each.seconds);
  const rows = shown.flatMap((each) => bar(each.name, each.seconds, shown[0].seconds, seconds(each)));
  return [
    title,
    element("p", {}, `${total.toFixed(2)} s in ${counted(passes.length, "pass")}, `
      + `each without those that it runs itself, by ${report.versions}; code is not compiled here.`),
    element("div", { class: "bars wide" }, ...rows),
  ];
}

function seconds(each) {
  const runs = each.runs > 1 ? ` in ${each.runs} runs` : "";
  return `${each.seconds.toFixed(3)} s${runs}, ${each.stage}`;
}

function drawPlans() {
  if (!report.plans.length) return [];
  const rows = report.plans.map((plan) =>
    element("li", {}, `${micros(plan.cost_us)} predicted, ${plan.status}, gap ${(100 * plan.gap).toPrecision(2)} %; `
      + `simple rule ${micros(plan.greedy_us)}; ${counted(plan.candidates, "candidate")} in `
      + `${counted(plan.regions, "region")}, ${plan.distinct} of them different`));
  return [element("h3", {}, "Plans"), element("ul", {}, ...rows)];
}

function drawLeft(parent) {
  const parts = [];
  const list = (title, head, rows) => rows.length && parts.push(element("h3", {}, title), plainTable(head, rows));
  list("Left to TVM's default kernels", ["operator", "why"],
    report.fallbacks.map((each) => [each.op, each.reason]));
  list("Between kernels, through memory", ["from", "to", "bytes", "why not one kernel"],
    report.cuts.map((cut) => [cut.writer.join(", "), cut.reader.join(", "),
      bytes(cut.bytes) + (cut.count > 1 ? ` × ${cut.count}` : ""), cut.reason]));
  list("Measured, the faster kept", ["operators", "times", "stitched", "TVM's default", "note"],
    report.measured.map((each) => [each.operators.join(", "), String(each.count),
      micros(each.stitched_us), micros(each.default_us), each.why]));
  if (!parts.length) parts.push(element("p", { class: "muted" }, "Nothing: every operator is in a stitched kernel, and nothing crosses."));
  parent.replaceChildren(...parts);
}

function plainTable(head, rows) {
  const line = (cells, tag) => element("tr", {}, ...cells.map((cell) => element(tag, {}, cell)));
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, line(head, "th")),
    element("tbody", {}, ...rows.map((row) => line(row, "td")))));
}
