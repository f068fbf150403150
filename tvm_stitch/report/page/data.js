// The data of the page, as Python wrote it: a report, a profile or null, and the kernels' code.

const report = JSON.parse(document.getElementById("report").textContent);
const profile = JSON.parse(document.getElementById("profile").textContent);
const after = side("after", report.kernels, report.flow);
const before = side("before", report.before.described ?? [], report.before.flow);
const kernels = after.kernels;
const measured = new Map((profile?.kernels ?? []).map((each) => [each.name, each]));

/** The kernels of the stitched module, or of TVM's own pipeline, and what flows between them. */
function side(name, described, flow) {
  const found = { name, flow };
  found.kernels = described.map((kernel, place) => ({ ...kernel, place, side: found }));
  return found;
}

let code = null; // large, and mostly not looked at

/** TIR and CUDA of a kernel. */
function codeOf(kernel) {
  code ??= JSON.parse(document.getElementById("code").textContent);
  return code[kernel.name] ?? { tir: "", cuda: "" };
}

/** What a kernel took when it was measured, in microseconds; null if it was not. */
function measuredOf(kernel) {
  return (kernel.side === after && measured.get(kernel.name)?.measured_us) || null;
}

/** The best that is known of a kernel's time, and what that is. */
function timeOf(kernel) {
  const found = [
    ["measured", measuredOf(kernel)],
    ["predicted", kernel.predicted_us],
    ["floor", kernel.floor_us],
  ].find(([, us]) => us !== null);
  return found ? { kind: found[0], us: found[1] } : { kind: "unknown", us: null };
}

/** The lines of the user's model that a stage comes from. */
function sourcesOf(stage) {
  return stage.sources.map((place) => report.sources[place]);
}

/** Whether a kernel holds a text: in its name, scheme, operators, or what these come from. */
function holds(kernel, text) {
  kernel.words ??= wordsOf(kernel);
  return kernel.words.includes(text.toLowerCase());
}

function wordsOf(kernel) {
  const sources = kernel.stages.flatMap(sourcesOf).flatMap((source) =>
    [source.text, source.place, source.line, source.module]);
  return [kernel.name, kernel.scheme, ...kernel.ops, ...sources].join("\n").toLowerCase();
}
