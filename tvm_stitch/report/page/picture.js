// The picture: boxes within boxes, edges as thick as what crosses, zoom and pan.

const TOP = 48; // room for the controls above the picture
const SIDE = 12; // beside it
const BOTTOM = 40; // and for the legend below it
const READABLE = 0.55; // the smallest scale at which titles can be read
const curve = d3.line((point) => point.x, (point) => point.y).curve(d3.curveBasis);

/** Draws a side as a tree of boxes into an SVG, and tells what is clicked. */
class Picture {
  constructor(svg, side, onSelect) {
    this.svg = d3.select(svg);
    this.roots = new Map(); // of the sides that were looked at
    this.turn(side);
    this.onSelect = onSelect;
    this.sheet = this.svg.append("g");
    this.zoom = d3.zoom().scaleExtent([0.02, 4]).on("zoom", ({ transform }) => {
      this.sheet.attr("transform", transform);
      this.svg.classed("far", transform.k < 0.35);
    });
    this.svg.call(this.zoom).on("dblclick.zoom", null);
    this.marks = { found: new Set(), selected: null };
  }

  /** Take the other side from now on. */
  turn(side) {
    this.side = side;
    if (!this.roots.has(side)) this.roots.set(side, grown(side));
    this.root = this.roots.get(side);
  }

  draw() {
    this.arrange();
    this.sheet.selectAll("*").remove();
    this.drawInside(this.sheet, this.root, 0, 0);
    this.mark();
  }

  /** Give everything its place; at first, kernels are open only where all of it can be read. */
  arrange() {
    layOut(this.root);
    if (this.root.isKnown) return;
    this.root.isKnown = true;
    if (this.fits()) return;
    closeKernels(this.root);
    layOut(this.root);
  }

  drawInside(parent, box, dx, dy) {
    const inside = parent.append("g").attr("transform", `translate(${dx},${dy})`);
    [...box.edges.values()].forEach((edge, place) => {
      this.drawEdge(inside, edge, box.inside.points[place]);
    });
    box.children.forEach((child) => this.drawBox(inside, child));
  }

  drawEdge(parent, edge, points) {
    const drawn = parent.append("g").attr("class", "edge");
    drawn.append("path").attr("class", "hit").attr("d", curve(points));
    drawn.append("path").attr("d", curve(points)).attr("stroke-width", thickness(edge.bytes));
    drawn.append("title").text(`${bytes(edge.bytes)} through memory`);
    drawn.on("click", (event) => this.select(event, { edge, side: this.side }));
  }

  drawBox(parent, box) {
    const drawn = parent
      .append("g")
      .datum(box)
      .attr("class", `box ${box.kind}`)
      .attr("id", box.id)
      .attr("tabindex", 0)
      .attr("transform", `translate(${box.x},${box.y})`)
      .style("--scheme", box.kernel ? colour(box.kernel.scheme) : null);
    drawn.append("rect").attr("width", box.width).attr("height", box.height).attr("rx", 6);
    this.title(drawn, box);
    drawn
      .on("click", (event) => this.select(event, { box }))
      .on("dblclick", (event) => this.toggle(event, box))
      .on("keydown", (event) => event.key === "Enter" && this.select(event, { box }));
    if (!box.inside) return;
    const dx = (box.width - box.inside.width) / 2;
    if (box.kernel) drawOperators(drawn, box, dx);
    else this.drawInside(drawn, box, dx, TITLE);
  }

  title(drawn, box) {
    const lines = box.kernel ? kernelTitle(box) : groupTitle(box);
    lines.forEach((line, place) => {
      const room = Math.floor((box.width - 34) / (place ? SMALL_LETTER : LETTER));
      drawn.append("text").attr("x", 10).attr("y", 17 + 17 * place)
        .attr("class", place ? "muted" : "name").text(shortened(line, room));
    });
    drawn.append("title").text(box.kernel ? `${box.kernel.name}\n${box.kernel.ops.join(", ")}` : lines[0]);
    if (!opens(box)) return;
    drawn.append("text").attr("class", "toggle").attr("x", box.width - 18).attr("y", 17)
      .text(box.open ? "−" : "+").on("click", (event) => this.toggle(event, box));
  }

  toggle(event, box) {
    event.stopPropagation();
    box.open = !box.open;
    this.draw();
  }

  select(event, what) {
    event.stopPropagation();
    this.onSelect(what);
  }

  /** Open everything, or close all but the outermost boxes. */
  openAll(open) {
    for (const box of all(this.root)) box.open = open || box === this.root;
    this.draw();
    this.fit();
  }

  /** Mark what a search found, and what is selected. */
  mark() {
    const { found, selected } = this.marks;
    this.svg.classed("searched", found.size > 0);
    this.sheet.selectAll(".box")
      .classed("found", (box) => [...all(box)].some((each) => found.has(each.kernel)))
      .classed("selected", (box) => Boolean(box.kernel) && box.kernel === selected);
  }

  /** Show a kernel: where it lies first. */
  show(kernel) {
    const box = boxesOf(this.root, kernel)[0];
    if (!box) return;
    const hidden = !document.getElementById(box.id);
    reveal(box);
    if (hidden) this.draw();
    this.centre(document.getElementById(box.id));
  }

  /** Bring a box to the middle of what is free; of a larger one the title, which is above left. */
  centre(node) {
    if (d3.zoomTransform(this.svg.node()).k < 0.5) this.svg.call(this.zoom.scaleTo, 0.9);
    const { k } = d3.zoomTransform(this.svg.node());
    const bounds = node.getBoundingClientRect();
    const view = this.svg.node().getBoundingClientRect();
    const free = this.free();
    const x = view.x + SIDE + Math.max(0, free.width - bounds.width) / 2;
    const y = view.y + TOP + Math.max(0, free.height - bounds.height) / 2;
    this.svg.call(this.zoom.translateBy, (x - bounds.x) / k, (y - bounds.y) / k);
  }

  /** The room between the controls and the legend. */
  free() {
    const { width, height } = this.svg.node().getBoundingClientRect();
    return { width: width - 2 * SIDE, height: height - TOP - BOTTOM };
  }

  /** Whether all of it can be read at once. */
  fits() {
    const free = this.free();
    return this.root.width * READABLE <= free.width && this.root.height * READABLE <= free.height;
  }

  /** Everything at once where that can be read, else the whole width from the top. */
  fit() {
    const view = this.svg.node().getBoundingClientRect();
    const free = this.free();
    const high = free.height / this.root.height;
    const whole = high < READABLE ? 1 : high;
    const scale = Math.min(1, Math.max(0.3, free.width / this.root.width), whole);
    const dx = Math.max(SIDE, (view.width - this.root.width * scale) / 2);
    this.svg.call(this.zoom.transform, d3.zoomIdentity.translate(dx, TOP).scale(scale));
  }
}

/** The width of an edge: a pixel for a kilobyte, one more for every four times that. */
function thickness(size) {
  return Math.min(12, 1 + Math.max(0, Math.log(Math.max(size, 1) / 1e3) / Math.log(4)));
}

function kernelTitle(box) {
  const { kernel } = box;
  const time = timeOf(kernel);
  const label = time.kind === "floor" ? `≥ ${micros(time.us)}` : micros(time.us);
  const count = box.open ? "" : ` · ${counted(kernel.ops.length, "op")}`;
  const line = `${kernel.scheme} · ${label} · ${bytes(kernel.bytes_min)}${count}`;
  return [`${kernel.place + 1}  ${gist(kernel)}`, line];
}

function groupTitle(box) {
  const launches = counted(box.period, "launch");
  if (box.kind === "section") return [`launches ${box.start + 1} to ${box.start + box.period}`, launches];
  const carried = box.carried ? `${bytes(box.carried / (box.count - 1))} to the next` : "";
  return [`${box.count} × ${launches}`, carried];
}

function drawOperators(drawn, box, dx) {
  const inside = drawn.append("g").attr("transform", `translate(${dx},${TITLE})`);
  box.inside.points.forEach((points) => inside.append("path").attr("class", "flow").attr("d", curve(points)));
  box.kernel.stages.forEach((stage, place) => {
    const { x, y, width, height } = box.inside.nodes[place];
    const node = inside.append("g").attr("class", "operator").attr("transform", `translate(${x},${y})`)
      .style("--scheme", stage.scheme ? colour(stage.scheme) : null)
      .classed("flows", Boolean(stage.scheme));
    node.append("rect").attr("width", width).attr("height", height).attr("rx", 11);
    node.append("text").attr("x", width / 2).attr("y", 15).text(stage.operator);
    node.append("title").text([stage.type, ...sourcesOf(stage).map((source) => source.text)].join("\n"));
  });
}
