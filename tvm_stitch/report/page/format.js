// Numbers and names for people; what every page has.

const SCHEMES = ["local", "warp", "regional", "cluster", "global", "independent", "library", "default"];

/** 3145728 as 3.1 MB; null as a question mark. */
function bytes(number) {
  if (number === null || number === undefined) return "?";
  for (const [unit, scale] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (number >= scale) return `${(number / scale).toFixed(1)} ${unit}`;
  }
  return `${number} B`;
}

/** Microseconds, three digits. */
function micros(us) {
  if (us === null || us === undefined) return "–";
  return us >= 1000 ? `${(us / 1000).toPrecision(3)} ms` : `${Number(us.toPrecision(3))} µs`;
}

/** A ratio such as 1.08×. */
function times(ratio) {
  return ratio === null || !Number.isFinite(ratio) ? "–" : `${ratio.toFixed(2)}×`;
}

/** A rate such as 4.26 TB/s. */
function rate(number, unit) {
  return d3.format(".3~s")(number).replace(/\D?$/, (prefix) => ` ${prefix}${unit}`);
}

function ratio(one, other) {
  return one === null || !other ? null : one / other;
}

function counted(number, thing) {
  const plural = /(s|ch)$/.test(thing) ? "es" : "s";
  return `${number} ${thing}${number === 1 ? "" : plural}`;
}

function shortened(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

// Operators that only move or convert values: named where there is nothing else.
const MOVES = new Set(["reshape", "cast", "astype", "transpose", "permute_dims", "broadcast_to",
  "expand_dims", "squeeze", "concatenate", "strided_slice"]);

/** What a kernel computes, in few words: its first and last operators. */
function gist(kernel) {
  const telling = kernel.ops.filter((name) => !MOVES.has(name));
  const names = telling.length ? telling : kernel.ops;
  return names.length <= 3 ? names.join(", ") : `${names[0]}, ${names[1]} … ${names.at(-1)}`;
}

/** The CSS colour of a scheme. */
function colour(scheme) {
  return `var(--${SCHEMES.includes(scheme) ? scheme : "default"})`;
}

/** A new element with attributes and children; text is text, never markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function switchTheme() {
  const root = document.documentElement;
  const preferred = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme ?? preferred) === "dark" ? "light" : "dark";
}
