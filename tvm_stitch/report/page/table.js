// All kernels as a table, to sort and to filter.

const COLUMNS = [
  ["#", (kernel) => kernel.place + 1],
  ["kernel", (kernel) => gist(kernel)],
  ["scheme", (kernel) => kernel.scheme],
  ["launches", (kernel) => kernel.launches],
  ["least", (kernel) => kernel.bytes_min, bytes],
  ["planned", (kernel) => kernel.bytes_planned, (size) => (size === null ? "–" : bytes(size))],
  ["floor", (kernel) => kernel.floor_us, micros],
  ["predicted", (kernel) => kernel.predicted_us, micros],
  ["measured", measuredOf, micros],
  ["× floor", againstFloor, times],
  ["all launches", (kernel) => allLaunches(kernel), micros],
].filter(([name]) => name !== "measured" || profile?.measured);

const TEXTS = new Set(["kernel", "scheme"]);

function againstFloor(kernel) {
  const time = timeOf(kernel);
  return time.kind === "floor" ? null : ratio(time.us, kernel.floor_us);
}

function allLaunches(kernel) {
  const { us, kind } = timeOf(kernel);
  return us === null || kind === "floor" ? null : us * kernel.launches;
}

/** The table, of which a text and schemes show a part. */
class KernelTable {
  constructor(parent, onKernel) {
    this.onKernel = onKernel;
    this.order = { column: 0, down: false };
    this.hidden = new Set();
    this.text = "";
    this.head = element("tr");
    this.body = element("tbody");
    const table = element("table", { class: "kernels" }, element("thead", {}, this.head), this.body);
    parent.replaceChildren(this.filters(), element("div", { class: "scroll" }, table));
  }

  filters() {
    const used = SCHEMES.filter((scheme) => kernels.some((kernel) => kernel.scheme === scheme));
    const boxes = used.map((scheme) => {
      const box = element("input", { type: "checkbox", checked: "", onchange: () => this.flip(scheme) });
      return element("label", {}, box, schemeMark(scheme));
    });
    return element("div", { class: "filters" }, ...boxes);
  }

  flip(scheme) {
    if (!this.hidden.delete(scheme)) this.hidden.add(scheme);
    this.draw();
  }

  sortBy(column) {
    this.order = { column, down: this.order.column === column ? !this.order.down : column > 2 };
    this.draw();
  }

  /** Another text or selection, from the next time on that the table is drawn. */
  show(change) {
    Object.assign(this, change);
    if (this.head.childElementCount) this.draw();
  }

  draw() {
    this.head.replaceChildren(...COLUMNS.map(([name], place) => this.heading(name, place)));
    const shown = kernels.filter((kernel) => !this.hidden.has(kernel.scheme) && holds(kernel, this.text));
    const [, value] = COLUMNS[this.order.column];
    const compare = this.order.down ? d3.descending : d3.ascending;
    shown.sort((one, other) => compare(value(one) ?? -1, value(other) ?? -1));
    this.body.replaceChildren(...shown.map((kernel) => this.row(kernel)));
  }

  heading(name, place) {
    const sorted = this.order.column === place;
    const mark = sorted ? (this.order.down ? " ↓" : " ↑") : "";
    const holds = TEXTS.has(name) ? null : "number";
    return element("th", { class: holds, "aria-sort": sorted ? (this.order.down ? "descending" : "ascending") : null },
      element("button", { type: "button", onclick: () => this.sortBy(place) }, name + mark));
  }

  row(kernel) {
    const cells = COLUMNS.map(([name, value, shown = String]) => {
      const found = value(kernel);
      const content = name === "scheme" ? schemeMark(found) : shown(found);
      return element("td", { class: typeof found === "number" || found === null ? "number" : null }, content);
    });
    const chosen = kernel === this.selected ? "true" : null;
    return element("tr", { "data-kernel": kernel.name, tabindex: 0, "aria-selected": chosen,
      onclick: () => this.onKernel(kernel),
      onkeydown: (event) => event.key === "Enter" && this.onKernel(kernel) }, ...cells);
  }
}
