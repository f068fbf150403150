// The launches as a tree of boxes: kernels, what repeats, sections of long lists. Edges lie in the
// smallest box that holds both their ends.

const MOST_BOXES = 150; // that are open at first
const MOST_OPERATORS = 80; // in kernels that are open at first: more hide the plan behind its parts

/** The box of everything on a side. */
function grown(side) {
  const { folded, launches, edges } = side.flow;
  const root = { id: "root", kind: "root", items: folded, start: 0, period: launches.length, count: 1 };
  grow(root, null, side);
  edges.forEach((edge) => tie(root, edge));
  root.open = true;
  openSome(root);
  return root;
}

function grow(box, parent, side) {
  Object.assign(box, { parent, edges: new Map(), carried: 0, open: false });
  box.children = (box.items ?? []).map((item, place) => {
    const child = typeof item === "number" ? launchBox(item, side) : repeatBox(item);
    child.place = place;
    grow(child, box, side);
    return child;
  });
}

function launchBox(launch, side) {
  const kernel = side.kernels[side.flow.launches[launch]];
  return { id: `launch-${launch}`, kind: "kernel", launch, kernel };
}

function repeatBox(repeat) {
  const kind = repeat.count > 1 ? "repeat" : "section";
  return { id: `${kind}-${repeat.start}-${repeat.period}`, kind, ...repeat };
}

/** The child of a box that holds a launch, and in which repetition of the box that is. */
function within(box, launch) {
  const offset = launch - box.start;
  const inner = box.start + (offset % box.period);
  const ends = (item) => (typeof item === "number" ? item + 1 : item.start + item.period * item.count);
  const place = d3.bisector(ends).right(box.items, inner);
  return { child: box.children[place], inner, turn: Math.floor(offset / box.period) };
}

/** Put an edge where it belongs. Of what repeats, the first time is drawn. */
function tie(box, edge) {
  const from = within(box, edge.writer);
  const to = within(box, edge.reader);
  if (from.turn !== to.turn) {
    box.carried += edge.bytes ?? 0;
  } else if (from.turn === 0 && from.child === to.child && from.child.items) {
    tie(from.child, { ...edge, writer: from.inner, reader: to.inner });
  } else if (from.turn === 0 && from.child !== to.child) {
    join(box, from.child, to.child, edge);
  }
}

function join(box, from, to, edge) {
  const key = `${from.place}-${to.place}`;
  const known = box.edges.get(key) ?? { from, to, bytes: 0, parts: [] };
  known.bytes += edge.bytes ?? 0;
  known.parts.push(edge);
  box.edges.set(key, known);
}

/** Open groups from the outside in while there are few enough to take in, and small plans' kernels. */
function openSome(root) {
  let boxes = root.children.length;
  const seen = [];
  for (const queue = [...root.children]; queue.length; ) {
    const box = queue.shift();
    seen.push(box);
    if (box.items && boxes + box.children.length <= MOST_BOXES) {
      box.open = true;
      boxes += box.children.length;
      queue.push(...box.children);
    }
  }
  const shown = seen.filter((box) => box.kernel);
  const operators = d3.sum(shown, (box) => box.kernel.stages.length);
  for (const box of shown) box.open = operators <= MOST_OPERATORS;
}

/** Close what shows operators. */
function closeKernels(root) {
  for (const box of all(root)) box.open &&= !box.kernel;
}

/** All boxes in a box, those in closed ones too. */
function* all(box) {
  yield box;
  for (const child of box.children) yield* all(child);
}

/** The boxes of a kernel; the first one stands for all of its launches that are folded away. */
function boxesOf(root, kernel) {
  return [...all(root)].filter((box) => box.kernel === kernel);
}

/** Open whatever a box lies in. */
function reveal(box) {
  for (let outer = box.parent; outer; outer = outer.parent) outer.open = true;
}
