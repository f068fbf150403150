// All kernels by what they compute for each byte, and how fast, under the roof of the device.

// As wide as the window, so that letters are as large as elsewhere.
const FRAME = {
  width: Math.min(900, Math.max(420, window.innerWidth - 60)), height: 520, left: 70, right: 24, top: 24, bottom: 52,
};

function drawRoofline(parent, onKernel) {
  const points = kernels.filter((k) => k.operations > 0 && k.bytes_min > 0 && timeOf(k).us > 0).map(pointOf);
  if (!points.length) {
    parent.replaceChildren(element("p", { class: "muted" }, "No kernel whose arithmetic and time are both known."));
    return;
  }
  const svg = d3.create("svg").attr("viewBox", `0 0 ${FRAME.width} ${FRAME.height}`).attr("class", "plot");
  const scales = scalesOf(points);
  drawAxes(svg, scales);
  drawRoof(svg, scales, points);
  drawPoints(svg, scales, points, onKernel);
  const left = kernels.length - points.length;
  const notes = [
    "Each point is a kernel, at its measured time if there is one, else at the predicted time. A hollow point is "
      + "a kernel of TVM's: its time is not predicted, so it stands under the roof, which it cannot pass.",
    "The slope is the bandwidth of a large copy.",
    left ? `Not shown, for they do no arithmetic or their size is open: ${counted(left, "kernel")}.` : "",
  ];
  parent.replaceChildren(svg.node(), element("p", { class: "muted" }, notes.filter(Boolean).join(" ")));
}

function pointOf(kernel) {
  const { us, kind } = timeOf(kernel);
  const rate = (kernel.operations / us) * 1e6;
  const y = kind === "floor" ? Math.min(rate, peakOf(kernel)) : rate;
  return { kernel, kind, x: kernel.operations / kernel.bytes_min, y };
}

function readsHalves(kernel) {
  return kernel.stages.some((stage) => /float16|bfloat16/.test(stage.type));
}

/** What caps the arithmetic of a kernel. */
function peakOf(kernel) {
  const { float32, tensor } = report.limits;
  return (readsHalves(kernel) && tensor) || float32;
}

/** What caps the rate of arithmetic; tensor cores count where a kernel of halves comes near what the rest can do. */
function peaks(points) {
  const { float32, tensor } = report.limits;
  const fastest = d3.max(points.filter((point) => readsHalves(point.kernel)), (point) => point.y) ?? 0;
  return [["float32", float32], ["tensor cores, float16", tensor]]
    .filter(([, rate], place) => !place || (rate && fastest > float32 / 4));
}

function scalesOf(points) {
  const { bandwidth } = report.limits;
  const rates = peaks(points).map(([, rate]) => rate);
  const xs = d3.extent([...points.map((point) => point.x), ...rates.map((rate) => rate / bandwidth)]);
  const ys = d3.extent([...points.map((point) => point.y), ...rates]);
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
    .text("operations per byte (each input read and each output written once)");
  svg.append("text").attr("class", "label").attr("transform", `translate(16,${FRAME.height / 2}) rotate(-90)`)
    .text("operations per second");
}

function drawRoof(svg, { x, y }, points) {
  const { bandwidth } = report.limits;
  const [first, last] = x.domain();
  const line = d3.line(([at]) => x(at), ([, rate]) => y(rate));
  const highest = d3.max(peaks(points), ([, rate]) => rate);
  const start = Math.max(first, y.domain()[0] / bandwidth);
  svg.append("path").attr("class", "roof")
    .attr("d", line([[start, start * bandwidth], [highest / bandwidth, highest]]));
  const middle = Math.sqrt(start * (peaks(points)[0][1] / bandwidth));
  svg.append("text").attr("class", "label roof-name")
    .attr("x", x(middle) - 8).attr("y", y(middle * bandwidth) - 8)
    .text(rate(bandwidth, "B/s"));
  for (const [name, peak] of peaks(points)) {
    const ridge = peak / bandwidth;
    svg.append("path").attr("class", "roof").attr("d", line([[ridge, peak], [Math.max(last, ridge), peak]]));
    svg.append("text").attr("class", "label roof-name").attr("x", FRAME.width - FRAME.right).attr("y", y(peak) - 8)
      .text(`${name}: ${rate(peak, "FLOP/s")}`);
  }
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
