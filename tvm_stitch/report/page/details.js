// The panel beside the picture: all that is known of a kernel or an edge.

/** Fill the panel with what is known of a kernel. */
function showKernel(panel, kernel, onKernel) {
  panel.replaceChildren(
    element("h2", { style: `--scheme: ${colour(kernel.scheme)}` }, `${kernel.place + 1}  `, gist(kernel)),
    element("p", { class: "kernel-name" }, kernel.name),
    ...paragraphs(kernel),
    figures(kernel),
    timeBars(kernel),
    ...neighbours(kernel, onKernel),
    element("h3", {}, "Stages"),
    stagesTable(kernel),
    ...(kernel.side === after ? codeBlocks(kernel) : []),
  );
  panel.parentElement.scrollTop = 0;
}

function codeBlocks(kernel) {
  return [
    codeBlock("TIR", "python", () => codeOf(kernel).tir),
    codeBlock("CUDA", "cpp", () => codeOf(kernel).cuda),
  ];
}

function paragraphs(kernel) {
  return [kernel.why, kernel.together].filter(Boolean).map((text) => element("p", {}, text));
}

function figures(kernel) {
  const time = timeOf(kernel);
  const tuned = kernel.origin.startsWith("tuned") ? ` (${kernel.origin})` : "";
  const rows = [
    ["scheme", kernel.scheme],
    ["mapping", kernel.mapping + tuned],
    ["launches", String(kernel.launches)],
    ["least traffic", bytes(kernel.bytes_min)],
    ["planned traffic", bytesPlanned(kernel)],
    ...(time.kind === "floor" ? [] : [[`${time.kind} / floor`, times(ratio(time.us, kernel.floor_us))]]),
    ...counts(kernel),
  ];
  const cells = rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  return element("dl", { class: "figures" }, ...cells);
}

/** What a profile says besides the time. */
function counts(kernel) {
  const found = (kernel.side === after && measured.get(kernel.name)) || {};
  const share = found.copy_share ? `${Math.round(100 * found.copy_share)} %` : null;
  return [
    ["share of a copy's bandwidth", share],
    ["memory accesses", found.accesses],
    ["accessed in global memory", found.global_bytes == null ? null : bytes(found.global_bytes)],
    ["barriers passed by blocks", found.barriers],
    ["operations of arithmetic", kernel.operations],
  ].filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [name, String(value)]);
}

function bytesPlanned(kernel) {
  const share = ratio(kernel.bytes_planned, kernel.bytes_min);
  return share === null ? "–" : `${bytes(kernel.bytes_planned)} (${times(share)})`;
}

/** Floor, prediction and measurement as bars of one scale. */
function timeBars(kernel) {
  const rows = [
    ["floor", kernel.floor_us],
    ["predicted", kernel.predicted_us],
    ["measured", measuredOf(kernel)],
  ].filter(([, us]) => us !== null);
  const longest = Math.max(...rows.map(([, us]) => us));
  return element("div", { class: "bars" }, ...rows.flatMap(([name, us]) => bar(name, us, longest, micros(us))));
}

function bar(name, value, longest, label) {
  const width = longest > 0 ? (100 * value) / longest : 0;
  return [
    element("span", { class: "name" }, name),
    element("span", { class: "track" }, element("span", { class: `bar ${name}`, style: `width: ${width}%` })),
    element("span", { class: "number" }, label),
  ];
}

/** The stages, each below the line of the model that it comes from. */
function stagesTable(kernel) {
  const shown = (stage) => String(sourcesOf(stage).map(whose));
  const isNew = (stage, place) => !place || shown(stage) !== shown(kernel.stages[place - 1]);
  const rows = kernel.stages.flatMap((stage, place) => [
    ...(stage.sources.length && isNew(stage, place) ? [sourceRow(stage)] : []),
    element("tr", { class: "stage" },
      element("td", {}, stage.operator),
      element("td", {}, stage.scheme ? schemeMark(stage.scheme) : ""),
      element("td", { class: "muted" }, stage.type),
    ),
  ]);
  const head = ["operator", "scheme", "type"].map((name) => element("th", {}, name));
  return element("div", { class: "scroll" },
    element("table", { class: "stages" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}

/** The lines of the model: one of each place, for equal layers share a kernel. */
function sourceRow(stage) {
  const lines = [...new Map(sourcesOf(stage).map((source) => [whose(source), source])).values()];
  const shown = lines.slice(0, 2).map((source) =>
    element("div", { title: `${lineOf(source, source.place)}\n${source.text}` },
      lineOf(source, shortPlace(source.place)), source.module ? element("span", { class: "module" }, ` ${source.module}`) : null));
  if (lines.length > 2) shown.push(element("div", { class: "muted" }, `and ${lines.length - 2} more`));
  return element("tr", {}, element("td", { class: "source", colspan: 3 }, ...shown));
}

/** The same for sources that look the same. */
function whose(source) {
  return source.place ? `${source.place} ${source.module}` : source.text;
}

/** A file by its name and folder: the whole path would fill the panel. */
function shortPlace(place) {
  return place.split("/").slice(-2).join("/");
}

function lineOf(source, place) {
  const text = source.line || source.text;
  return place ? `${place}  ${text}` : text;
}

function schemeMark(scheme) {
  return element("span", { class: "scheme", style: `--scheme: ${colour(scheme)}` }, scheme);
}

/** Why the kernel starts and ends where it does: its edges, each neighbour once. */
function neighbours(kernel, onKernel) {
  const places = kernel.side.flow.launches;
  const list = (title, mine, other) => {
    const seen = new Map();
    for (const edge of kernel.side.flow.edges) {
      if (places[edge[mine]] === kernel.place) seen.set(places[edge[other]], edge);
    }
    if (!seen.size) return [];
    const items = [...seen].slice(0, 12).map(([place, edge]) => neighbour(kernel.side.kernels[place], edge, onKernel));
    return [element("h3", {}, title), element("ul", { class: "neighbours" }, ...items)];
  };
  return [...list("Ends before", "writer", "reader"), ...list("Begins after", "reader", "writer")];
}

function neighbour(kernel, edge, onKernel) {
  return element("li", {},
    element("button", { type: "button", class: "link", onclick: () => onKernel(kernel) },
      `${kernel.place + 1}  ${gist(kernel)}`),
    element("span", { class: "muted" }, ` ${edge.values.join(", ")} ${bytes(edge.bytes)}`),
    edge.reason ? element("p", {}, edge.reason) : null,
  );
}

/** Code that is coloured when it is opened. */
function codeBlock(title, language, text) {
  const shown = element("code", { class: `language-${language}` });
  const block = element("details", { class: "code" }, element("summary", {}, title), element("pre", {}, shown));
  block.addEventListener("toggle", () => {
    if (!block.open || shown.textContent) return;
    shown.textContent = text() || "not known";
    hljs.highlightElement(shown);
  });
  return block;
}

/** Fill the panel with what crosses between two boxes. */
function showEdge(panel, edge, side, onKernel) {
  const { kernels, flow: { launches: places } } = side;
  const items = edge.parts.slice(0, 20).map((part) =>
    element("li", {},
      neighbour(kernels[places[part.writer]], part, onKernel),
      neighbour(kernels[places[part.reader]], { values: ["into"], bytes: part.bytes }, onKernel),
    ),
  );
  panel.replaceChildren(
    element("h2", {}, "Through memory"),
    element("p", {}, `${bytes(edge.bytes)}, which one kernel writes and the other reads.`),
    element("ul", { class: "neighbours" }, ...items),
  );
}

/** Fill the panel with what a repeated stretch or a section holds. */
function showGroup(panel, box) {
  const held = [...all(box)].filter((each) => each.kernel).map((each) => each.kernel);
  const total = d3.sum(held, (kernel) => timeOf(kernel).us ?? 0);
  const lines = [
    `${counted(held.length, "launch")}, ${micros(total)} each time.`,
    box.carried ? `${bytes(box.carried / (box.count - 1))} go from one repetition to the next.` : "",
    "Double-click it to open or close it.",
  ];
  panel.replaceChildren(
    element("h2", {}, box.count > 1 ? `Repeated ${box.count} times` : groupTitle(box)[0]),
    ...lines.filter(Boolean).map((line) => element("p", {}, line)),
  );
}

function showNothing(panel) {
  panel.replaceChildren(
    element("p", { class: "muted" },
      "Click a kernel for its stages, mapping, traffic, times, neighbours and code, or an edge for the values it "
        + "carries. Double-click a box to open or close it."),
  );
}
