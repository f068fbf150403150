// Where compile time went, and what went TVM's way.

const MOST_PASSES = 14;

function drawTimes(parent) {
  parent.replaceChildren(...drawRun(), ...drawPasses(), ...drawPlans());
}

/** A call of the model, where it was profiled. */
function drawRun() {
  if (!profile?.measured) return [];
  const rows = [
    ["on the GPU", profile.total_us],
    ["between launches", profile.gaps_us],
    ["on the host", profile.host_us],
  ].filter(([, us]) => us !== null);
  const longest = Math.max(...rows.map(([, us]) => us));
  return [
    element("h3", {}, "One call"),
    element("p", {}, `Measured by ${profile.how}; the median of ${counted(profile.calls, "call")}.`),
    element("div", { class: "bars wide" }, ...rows.flatMap(([name, us]) => bar(name, us, longest, micros(us)))),
  ];
}

function drawPasses() {
  const passes = report.passes;
  const title = element("h3", {}, "Compiling");
  if (!passes.length) return [title, element("p", { class: "muted" }, "This report does not hold the time of passes.")];
  const shown = passes.slice(0, MOST_PASSES);
  const total = d3.sum(passes, (each) => each.seconds);
  const rows = shown.flatMap((each) => bar(each.name, each.seconds, shown[0].seconds, seconds(each)));
  return [
    title,
    element("p", {}, `${total.toFixed(2)} s in ${counted(passes.length, "pass")}, `
      + `excluding the passes that each runs inside itself; ${report.versions}. This is explain's time: CUDA is not compiled.`),
    element("div", { class: "bars wide" }, ...rows),
  ];
}

function seconds(each) {
  const runs = each.runs > 1 ? ` in ${each.runs} runs` : "";
  const during = each.stage === each.name ? "" : `, while ${each.stage}`;
  return `${each.seconds.toFixed(3)} s${runs}${during}`;
}

function drawPlans() {
  if (!report.plans.length) return [];
  const rows = report.plans.map((plan) =>
    element("li", {}, `${micros(plan.cost_us)} predicted with launches, ${plan.status}, gap ${(100 * plan.gap).toPrecision(2)} %; `
      + `simple rule ${micros(plan.greedy_us)}; ${counted(plan.candidates, "candidate")} in `
      + `${counted(plan.regions, "region")}, ${plan.distinct} distinct`));
  return [element("h3", {}, "Plans"), element("ul", {}, ...rows)];
}

function drawLeft(parent) {
  const parts = [];
  const list = (title, head, rows) => rows.length && parts.push(element("h3", {}, title), plainTable(head, rows));
  list("Left to TVM's default kernels", ["operator", "why"],
    report.fallbacks.map((each) => [each.op, each.reason]));
  list("A library would take", ["operator", "why it does not"],
    report.for_library.map((each) => [each.op, each.reason]));
  list("Passed between kernels through memory", ["from", "to", "times", "bytes in all", "why they are not one kernel"],
    report.passed.map((each) => [numbered(each.writer), numbered(each.reader), String(each.count), amount(each), each.reason || "–"]));
  list("Measured; the faster of the two was kept", ["operators", "times", "stitched", "TVM's default", "note"],
    report.measured.map((each) => [each.operators.join(", "), String(each.count),
      micros(each.stitched_us), micros(each.default_us), each.why]));
  if (!parts.length) parts.push(element("p", { class: "muted" }, "Every operator is in a stitched kernel, and no value passes between kernels."));
  parent.replaceChildren(...parts);
}

/** A kernel by its number and in short, all of its operators under the pointer. */
function numbered(place) {
  const kernel = kernels[place];
  return element("span", { title: kernel.ops.join(", ") }, `${kernel.place + 1}  ${gist(kernel)}`);
}

/** The bytes that one kernel passes to another, the values under the pointer. */
function amount(passed) {
  return element("span", { class: "number", title: passed.values.join(", ") }, bytes(passed.bytes));
}

function plainTable(head, rows) {
  const line = (cells, tag) => element("tr", {}, ...cells.map((cell) => element(tag, {}, cell)));
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, line(head, "th")),
    element("tbody", {}, ...rows.map((row) => line(row, "td")))));
}
