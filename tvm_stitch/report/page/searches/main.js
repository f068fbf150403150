// The searches of a record store: a list to choose from, and what one of them came to.

const searches = JSON.parse(document.getElementById("searches").textContent).map(summed);
const list = document.getElementById("list");
let text = "";
let chosen = null;

/** A search with its best cost and what it gained over the schedule that is chosen by rule. */
function summed(search) {
  const final = search.trials.filter((trial) => trial.final && trial.cost !== null);
  const compared = final.length ? final : search.trials.filter((trial) => trial.cost !== null);
  const best = d3.min(compared, (trial) => trial.cost) ?? null;
  const rule = compared.find((trial) => trial.trial === 0)?.cost ?? null;
  const tried = search.trials.filter((trial) => !trial.final).length;
  return { ...search, best, gain: ratio(rule, best), tried };
}

function amount(cost, unit) {
  return cost === null ? "–" : unit === "us" ? micros(cost) : `${Number(cost.toPrecision(6))} ${unit}`;
}

function drawList() {
  const shown = searches.filter((search) => `${search.title} ${search.gpu}`.toLowerCase().includes(text));
  shown.sort((one, other) => (other.gain ?? 0) - (one.gain ?? 0));
  const rows = shown.map((search) => element("tr", {
    tabindex: 0, "aria-selected": search === chosen ? "true" : null,
    onclick: () => choose(search),
    onkeydown: (event) => event.key === "Enter" && choose(search),
  },
    element("td", {}, search.title),
    element("td", { class: "number" }, amount(search.best, search.unit)),
    element("td", { class: "number" }, times(search.gain)),
    element("td", { class: "number" }, String(search.tried))));
  const head = ["kernel", "best", "gain", "trials"].map((name) => element("th", {}, name));
  list.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}

function choose(search) {
  chosen = search;
  drawList();
  const failed = search.trials.filter((trial) => trial.cost === null).length;
  const line = `${search.gpu}: ${counted(search.tried, "trial")}, ${failed} failed; `
    + `best ${amount(search.best, search.unit)}, ${times(search.gain)} as fast as the schedule chosen by rule.`;
  document.getElementById("shown").replaceChildren(
    element("h2", {}, search.title),
    element("p", {}, line),
    element("h3", {}, "The search"),
    courseOf(search),
    element("p", { class: "muted" }, "A dot for each trial, the large one chosen by rule, hollow ones at the top failed; the line is the best so far."),
    element("h3", {}, "What mattered most"),
    parametersOf(search),
    element("h3", {}, "Predicted and measured"),
    agreementOf(search),
  );
}

function summarise() {
  const gains = searches.map((search) => search.gain).filter(Boolean);
  const mean = gains.length ? Math.exp(d3.mean(gains, Math.log)) : null;
  const cells = [
    ["searches", String(searches.length)],
    ["trials", String(d3.sum(searches, (search) => search.tried))],
    ["gain, geometric mean", times(mean)],
  ];
  document.getElementById("summary").replaceChildren(
    ...cells.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

document.getElementById("search").addEventListener("input", (event) => {
  text = event.target.value.trim().toLowerCase();
  drawList();
});
document.getElementById("theme").addEventListener("click", switchTheme);
summarise();
drawList();
if (searches.length) choose(d3.greatest(searches, (search) => search.gain ?? 0));
document.body.dataset.ready = "";
