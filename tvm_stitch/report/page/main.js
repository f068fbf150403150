// Ties the views together: what is selected, searched and shown.

const started = performance.now();
const panel = document.getElementById("story");
const picture = new Picture(document.getElementById("graph"), after, select);
const table = new KernelTable(document.getElementById("table"), selectKernel);
const search = document.getElementById("search");
let at = -1; // of what the search found
const undrawn = new Map([ // views, until they are looked at
  ["picture", () => { picture.draw(); picture.fit(); }],
  ["table", () => table.draw()],
  ["roofline", () => drawRoofline(document.getElementById("roofline"), selectKernel)],
  ["times", () => drawTimes(document.getElementById("times"))],
  ["left", () => drawLeft(document.getElementById("left"))],
]);

function select({ box, edge, side }) {
  if (edge) showEdge(panel, edge, side, selectKernel);
  else if (box.kernel) selectKernel(box.kernel);
  else showGroup(panel, box);
  document.body.classList.add("has-details");
}

function selectKernel(kernel) {
  picture.marks.selected = kernel;
  picture.mark();
  table.show({ selected: kernel });
  showKernel(panel, kernel, goTo);
  document.body.classList.add("has-details");
}

/** Select a kernel and bring it into view. */
function goTo(kernel) {
  if (kernel.side !== picture.side) turn(kernel.side);
  selectKernel(kernel);
  if (!document.getElementById("picture").hidden) picture.show(kernel);
}

/** Show the other side in the picture. */
function turn(side) {
  for (const each of [before, after]) {
    document.getElementById(each.name).setAttribute("aria-pressed", each === side);
  }
  picture.turn(side);
  picture.draw();
  picture.fit();
  searched();
  showNothing(panel);
  document.body.classList.remove("has-details");
}

/** What the view that is open shows: only the picture has two sides. */
function shown() {
  return document.getElementById("picture").hidden ? kernels : picture.side.kernels;
}

function searched() {
  const text = search.value.trim();
  const found = text ? shown().filter((kernel) => holds(kernel, text)) : [];
  at = -1;
  picture.marks.found = new Set(found);
  picture.mark();
  table.show({ text });
  document.getElementById("found").textContent = text ? counted(found.length, "kernel") : "";
}

function next(event) {
  const found = [...picture.marks.found];
  if (event.key !== "Enter" || !found.length) return;
  at = (at + 1) % found.length;
  document.getElementById("found").textContent = `${at + 1} of ${found.length}`;
  goTo(found[at]);
}

function view(name) {
  for (const tab of document.querySelectorAll("nav button")) {
    const chosen = tab.dataset.view === name;
    tab.setAttribute("aria-selected", chosen);
    document.getElementById(tab.dataset.view).hidden = !chosen;
  }
  document.body.classList.toggle("on-picture", name === "picture");
  undrawn.get(name)?.();
  undrawn.delete(name);
  searched();
}

function summarise() {
  const others = new Set(["default", "library"]);
  const stitched = kernels.filter((kernel) => !others.has(kernel.scheme)).length;
  const unstitched = report.before.launches;
  const launches = report.flow.launches.length || report.launches;
  const cells = [
    ["launches", unstitched === null ? String(launches) : `${unstitched} → ${launches}`,
      report.before.failure ? `TVM's own pipeline fails on this model: ${report.before.failure}` : "By TVM's own pipeline, and stitched"],
    ["kernels stitched", `${stitched} of ${kernels.length}`],
    ["predicted", total("predicted_us"), "All kernels, without the time between launches"],
    ["floor", total("floor_us"), "Each kernel's least traffic at the bandwidth of a large copy"],
    ...(profile?.measured ? [["measured", micros(profile.total_us)]] : []),
  ];
  document.getElementById("target").textContent = `${report.device} (${report.target})`;
  document.getElementById("summary").replaceChildren(
    ...cells.map(([name, value, hint]) => element("div", { title: hint ?? null }, element("dt", {}, name), element("dd", {}, value))));
}

/** A time of all launches; it says where kernels are missing in it. */
function total(field) {
  const known = kernels.filter((kernel) => kernel[field] !== null);
  const sum = micros(d3.sum(known, (kernel) => kernel[field] * kernel.launches));
  const missing = kernels.length - known.length;
  return missing ? `${sum} + ${missing} not predicted` : sum;
}

function legend() {
  const used = SCHEMES.filter((scheme) => [...kernels, ...before.kernels].some((k) => k.scheme === scheme || k.stages.some((s) => s.scheme === scheme)));
  document.getElementById("legend").replaceChildren(...used.map(schemeMark));
}

/** Deselect, and give the panel's room back. */
function closePanel() {
  picture.marks.selected = null;
  picture.mark();
  table.show({ selected: null });
  showNothing(panel);
  document.body.classList.remove("has-details");
}

function listen() {
  const on = (id, what, event = "click") => document.getElementById(id).addEventListener(event, what);
  for (const tab of document.querySelectorAll("nav button")) {
    tab.addEventListener("click", () => view(tab.dataset.view));
  }
  on("search", searched, "input");
  on("search", next, "keydown");
  on("theme", switchTheme);
  on("close", closePanel);
  document.addEventListener("keydown", (event) => event.key === "Escape" && closePanel());
  on("fit", () => picture.fit());
  on("closer", () => picture.svg.call(picture.zoom.scaleBy, 1.4));
  on("farther", () => picture.svg.call(picture.zoom.scaleBy, 1 / 1.4));
  for (const side of [before, after]) on(side.name, () => turn(side));
  on("open-all", () => picture.openAll(true));
  on("close-all", () => picture.openAll(false));
}

summarise();
document.getElementById("sides").hidden = !before.kernels.length;
legend();
listen();
view("picture");
showNothing(panel);
document.body.dataset.ready = String(Math.round(performance.now() - started)); // milliseconds
