// A search as pictures: its course, what told most, and prediction beside measurement.

// No wider than the window, so that letters are as large as elsewhere.
const FRAME = {
  width: Math.min(760, Math.max(400, window.innerWidth - 60)), height: 300, left: 64, right: 16, top: 14, bottom: 44,
};

/** The cost of every trial in order, and the best so far. */
function courseOf(search) {
  const trials = search.trials.filter((trial) => !trial.final);
  const costs = trials.filter((trial) => trial.cost !== null);
  if (!costs.length) return element("p", { class: "muted" }, "Every trial failed.");
  const places = new Map(trials.map((trial, place) => [trial, place]));
  const x = d3.scaleLinear([-0.5, trials.length - 0.5], across());
  const y = d3.scaleLog(roomy(d3.extent(costs, (trial) => trial.cost)), upwards());
  const svg = frame(x, y, "trial", search.unit === "us" ? "µs" : search.unit);
  let best = Infinity;
  const steps = costs.map((trial) => [places.get(trial), (best = Math.min(best, trial.cost))]);
  svg.append("path").attr("class", "best")
    .attr("d", d3.line(([at]) => x(at), ([, cost]) => y(cost)).curve(d3.curveStepAfter)(steps));
  dots(svg, trials, (trial) => x(places.get(trial)), (trial) => (trial.cost === null ? FRAME.top + 6 : y(trial.cost)), search.unit);
  return svg.node();
}

/** Predicted and measured times; on the dashed line they agree. */
function agreementOf(search) {
  const trials = search.trials.filter((trial) => trial.cost !== null && trial.predicted_us > 0);
  if (trials.length < 2) return element("p", { class: "muted" }, "No predictions are recorded beside times.");
  const ends = roomy(d3.extent(trials.flatMap((trial) => [trial.cost, trial.predicted_us])));
  const x = d3.scaleLog(ends, across());
  const y = d3.scaleLog(ends, upwards());
  const svg = frame(x, y, "predicted µs", "measured µs");
  svg.append("line").attr("class", "equal").attr("x1", x(ends[0])).attr("y1", y(ends[0]))
    .attr("x2", x(ends[1])).attr("y2", y(ends[1]));
  dots(svg, trials, (trial) => x(trial.predicted_us), (trial) => y(trial.cost), search.unit);
  return svg.node();
}

/** The fields that told most, with the best cost of each value. */
function parametersOf(search) {
  if (!search.parameters.length) return element("p", { class: "muted" }, "Too few trials to tell.");
  const rows = search.parameters.map(({ name, share, best }) => {
    const values = Object.entries(best).sort(([, one], [, other]) => one - other);
    const told = values.slice(0, 6).map(([value, cost]) => `${value}: ${amount(cost, search.unit)}`);
    if (values.length > 6) told.push(`and ${values.length - 6} more`);
    return element("tr", {},
      element("td", {}, name),
      element("td", { class: "number" }, `${Math.round(100 * share)} %`),
      element("td", {}, told.join(", ")));
  });
  const head = ["field", "explains", "best with each value"].map((name) => element("th", {}, name));
  return element("div", { class: "scroll" },
    element("table", { class: "parameters" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}

function dots(svg, trials, x, y, unit) {
  svg.append("g").selectAll("circle").data(trials).join("circle")
    .attr("class", (trial) => `trial${trial.final ? " final" : ""}${trial.trial ? "" : " chosen"}${trial.cost === null ? " failed" : ""}`)
    .attr("cx", x).attr("cy", y).attr("r", (trial) => (trial.trial ? 3.5 : 5.5))
    .append("title").text((trial) => told(trial, unit));
}

function told(trial, unit) {
  const fields = Object.entries(trial.schedule).map(([name, value]) => `${name} ${value}`).join(", ");
  return `${trial.trial ? `trial ${trial.trial}` : "chosen by rule"}: ${trial.error || amount(trial.cost, unit)}\n${fields}`;
}

function frame(x, y, across, up) {
  const svg = d3.create("svg").attr("viewBox", `0 0 ${FRAME.width} ${FRAME.height}`).attr("class", "plot");
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${FRAME.height - FRAME.bottom})`)
    .call(d3.axisBottom(x).ticks(8, "~r"));
  svg.append("g").attr("class", "axis").attr("transform", `translate(${FRAME.left},0)`)
    .call(d3.axisLeft(y).ticks(5, "~r"));
  svg.append("text").attr("class", "label").attr("x", FRAME.width / 2).attr("y", FRAME.height - 8).text(across);
  svg.append("text").attr("class", "label").attr("transform", `translate(14,${FRAME.height / 2}) rotate(-90)`).text(up);
  return svg;
}

function across() {
  return [FRAME.left, FRAME.width - FRAME.right];
}

function upwards() {
  return [FRAME.height - FRAME.bottom, FRAME.top];
}

function roomy([least, most]) {
  return [least / 1.1, most * 1.1];
}
