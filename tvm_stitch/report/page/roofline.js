// All kernels by what they compute for each byte, and how fast, under the roof of the device.

const FRAME = { width: 900, height: 520, left: 70, right: 24, top: 24, bottom: 52 };

function drawRoofline(parent, onKernel) {
  const points = kernels.filter((k) => k.operations > 0 && k.bytes_min > 0 && timeOf(k).us > 0).map(pointOf);
  if (!points.length) {
    parent.replaceChildren(element("p", { class: "muted" }, "No kernel whose arithmetic and time are both known."));
    return;
  }
  const svg = d3.create("svg").attr("viewBox", `0 0 ${FRAME.width} ${FRAME.height}`).attr("class", "plot");
  const scales = scalesOf(points);
  drawAxes(svg, scales);
  drawRoof(svg, scales);
  drawPoints(svg, scales, points, onKernel);
  const left = kernels.length - points.length;
  const note = "Time as measured where it was, else as predicted; a hollow point is a floor: "
    + "TVM's own kernels are not predicted. The roof is a large copy's bandwidth, and float32 outside of tensor cores."
    + (left ? ` Without arithmetic or of unknown size: ${left}.` : "");
  parent.replaceChildren(svg.node(), element("p", { class: "muted" }, note));
}

function pointOf(kernel) {
  const { us, kind } = timeOf(kernel);
  return { kernel, kind, x: kernel.operations / kernel.bytes_min, y: (kernel.operations / us) * 1e6 };
}

function scalesOf(points) {
  const { bandwidth, float32 } = report.limits;
  const ridge = float32 / bandwidth;
  const xs = d3.extent([...points.map((point) => point.x), ridge]);
  const ys = d3.extent([...points.map((point) => point.y), float32]);
  const x = d3.scaleLog([xs[0] / 2, xs[1] * 4], [FRAME.left, FRAME.width - FRAME.right]);
  const y = d3.scaleLog([ys[0] / 2, ys[1] * 2], [FRAME.height - FRAME.bottom, FRAME.top]);
  return { x, y };
}

function drawAxes(svg, { x, y }) {
  const bottom = FRAME.height - FRAME.bottom;
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${bottom})`)
    .call(d3.axisBottom(x).ticks(8, "~g"));
  svg.append("g").attr("class", "axis").attr("transform", `translate(${FRAME.left},0)`)
    .call(d3.axisLeft(y).ticks(6, "~s"));
  svg.append("text").attr("class", "label").attr("x", FRAME.width / 2).attr("y", FRAME.height - 10)
    .text("operations for each byte (each input and output once)");
  svg.append("text").attr("class", "label").attr("transform", `translate(16,${FRAME.height / 2}) rotate(-90)`)
    .text("operations a second");
}

function drawRoof(svg, { x, y }) {
  const { bandwidth, float32 } = report.limits;
  const [first, last] = x.domain();
  const ridge = float32 / bandwidth;
  const start = Math.max(first, y.domain()[0] / bandwidth);
  const roof = [[start, start * bandwidth], [ridge, float32], [Math.max(last, ridge), float32]];
  svg.append("path").attr("class", "roof")
    .attr("d", d3.line(([at]) => x(at), ([, rate]) => y(rate))(roof));
  svg.append("text").attr("class", "label roof-name").attr("x", x(ridge) + 8).attr("y", y(float32) - 8)
    .text(`${d3.format(".3~s")(float32)} float32/s, ${d3.format(".3~s")(bandwidth)}B/s`);
}

function drawPoints(svg, { x, y }, points, onKernel) {
  svg.append("g").selectAll("circle").data(points).join("circle")
    .attr("class", (point) => `point ${point.kind}`)
    .attr("cx", (point) => x(point.x)).attr("cy", (point) => y(point.y)).attr("r", 6)
    .attr("tabindex", 0)
    .style("--scheme", (point) => colour(point.kernel.scheme))
    .on("click", (_, point) => onKernel(point.kernel))
    .append("title").text(({ kernel }) => `${kernel.place + 1}  ${gist(kernel)}\n${micros(timeOf(kernel).us)}`);
}
