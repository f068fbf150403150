// Where everything stands. Each open box is laid out by dagre by itself, from the inside out: boxes
// that hold the same once, and no layout has more nodes than a box has items.

const TITLE = 42; // height of a box's heading
const PADDING = 12;
const CLOSED = { width: 260, height: 46 };
const OPERATOR_HEIGHT = 22;
const LETTER = 6.9; // width
const SMALL_LETTER = 5.6;

const MOST_IN_KERNEL = 300; // operators; more are a list beside the picture, dagre takes too long

const layouts = new Map(); // by sizes, edges and spacing: layers repeat, closed kernels are of one size

/** Whether there is a picture of what is in a box. */
function opens(box) {
  return !box.kernel || box.kernel.stages.length <= MOST_IN_KERNEL;
}

/** Give a box and all that is open in it a size, and positions relative to the box. */
function layOut(box) {
  if (box.kernel) {
    box.open &&= opens(box);
    box.inside = box.open ? operatorsOf(box.kernel) : null;
  } else if (box.open) {
    box.children.forEach(layOut);
    box.inside = arranged(
      box.children.map((child) => ({ width: child.width, height: child.height })),
      [...box.edges.values()].map((edge) => [edge.from.place, edge.to.place]),
      { nodesep: 24, ranksep: 36 },
    );
    box.inside.nodes.forEach((node, place) => Object.assign(box.children[place], { x: node.x, y: node.y }));
  } else {
    box.inside = null;
  }
  Object.assign(box, box.inside ? around(box.inside) : CLOSED);
}

function around(inside) {
  const width = Math.max(CLOSED.width, inside.width + 2 * PADDING);
  return { width, height: inside.height + TITLE + PADDING };
}

/** The operators of a kernel. */
function operatorsOf(kernel) {
  const sizes = kernel.stages.map((stage) => ({
    width: stage.operator.length * LETTER + 16,
    height: OPERATOR_HEIGHT,
  }));
  const edges = kernel.stages.flatMap((stage, place) => stage.reads.map((read) => [read, place]));
  return arranged(sizes, edges, { nodesep: 10, ranksep: 16 });
}

/** The layout of nodes of these sizes; what is equal has one. */
function arranged(...what) {
  const key = JSON.stringify(what);
  if (!layouts.has(key)) layouts.set(key, laidOutByDagre(...what));
  return layouts.get(key);
}

/** The upper left corners of nodes, and the points of the edges. */
function laidOutByDagre(sizes, edges, spacing) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", ...spacing });
  graph.setDefaultEdgeLabel(() => ({}));
  sizes.forEach((size, place) => graph.setNode(String(place), { ...size }));
  edges.forEach(([from, to]) => graph.setEdge(String(from), String(to)));
  dagre.layout(graph);
  const nodes = sizes.map((_, place) => {
    const node = graph.node(String(place));
    return { x: node.x - node.width / 2, y: node.y - node.height / 2, width: node.width, height: node.height };
  });
  const points = edges.map(([from, to]) => graph.edge(String(from), String(to)).points);
  const { width = 0, height = 0 } = graph.graph();
  return { nodes, points, width: Math.max(width, 0), height: Math.max(height, 0) };
}
