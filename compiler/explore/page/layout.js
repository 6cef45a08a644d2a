// Where the boxes of a folded program stand: its forward pass in a column downwards, its backward
// pass beside it upwards, so that the two halves of a layer are neighbours, and what follows a third.
//
// Layout engines for graphs in general know nothing of that structure. Of the 326 commands and 804
// arcs of gpt124m's first micro-batch dagre 0.8.5 makes a picture 30,000 points wide in 42 s, and
// Graphviz's dot none within a minute; this takes a few milliseconds.

export const boxSize = {width: 210, height: 22};
const gap = {x: 14, y: 9, column: 150}, head = 20, pad = 8, mostInRow = 6;

/** Rows of the children of a group: of what depends on each other one behind the other, else side
 *  by side; `feeds(a, b)`: b reads what a writes. Children are in the program's order. */
function ranksOf(children, feeds) {
  const ranks = [], rows = [];
  children.forEach((child, i) => {
    let rank = 0;
    for (let j = 0; j < i; ++j) if (ranks[j] >= rank && feeds(children[j], child)) rank = ranks[j] + 1;
    ranks.push(rank);
    (rows[rank] ??= []).push(child);
  });
  // Many that do not depend on each other are wrapped.
  return rows.flatMap(row => Array.from({length: Math.ceil(row.length / mostInRow)}, (_, i) => row.slice(i * mostInRow, (i + 1) * mostInRow)));
}

/** A row's children by the mean place of what they read. */
function sortRow(row, above, feeds) {
  const center = child => {
    const places = above.filter(other => feeds(other, child)).map(other => other.x + other.width / 2);
    return places.length ? places.reduce((sum, x) => sum + x, 0) / places.length : Infinity;
  };
  return row.map(child => [center(child), child]).sort(([a], [b]) => (a === b ? 0 : a - b)).map(([, child]) => child);
}

/** Sets the size of an item and where its children stand in it. */
function arrange(item, feeds, isUp) {
  if (!item.children.length) return Object.assign(item, boxSize);
  for (const child of item.children) arrange(child, feeds, isUp);
  const rows = ranksOf(item.children, feeds), placed = [];
  const widthOf = row => row.reduce((sum, child) => sum + child.width + gap.x, -gap.x);
  const width = Math.max(boxSize.width, ...rows.map(widthOf));
  let y = 0;
  for (const unsorted of rows) {
    const row = sortRow(unsorted, placed, feeds);
    let x = (width - widthOf(row)) / 2;
    for (const child of row) {
      Object.assign(child, {x, y});
      x += child.width + gap.x;
      placed.push(child);
    }
    y += Math.max(...row.map(child => child.height)) + gap.y;
  }
  const inner = y - gap.y;
  for (const child of item.children) {
    if (isUp) child.y = inner - child.y - child.height;
    child.x += pad;
    child.y += head;
  }
  return Object.assign(item, {width: width + 2 * pad, height: head + inner + pad});
}

/** Where the backward pass begins, an index of `names`: at which most names stand on both sides, the
 *  later ones in the opposite order. The number of names where there is none. */
export function turnOf(names) {
  const counts = new Map(), seen = new Set();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  let most = 0, turn = names.length, both = 0;
  const left = new Map(counts);
  names.forEach((name, i) => {
    if (both >= most && both > 1) [most, turn] = [both, i];
    if (!seen.has(name) && counts.get(name) > 1) ++both;
    seen.add(name);
    left.set(name, left.get(name) - 1);
    if (counts.get(name) > 1 && left.get(name) === 0) --both;
  });
  if (turn === names.length) return turn;
  const rows = new Map(names.slice(0, turn).map((name, i) => [name, i]));
  const back = [...new Set(names.slice(turn))].filter(name => rows.has(name)).map(name => rows.get(name));
  const falls = back.filter((row, i) => i && row < back[i - 1]).length;
  return 2 * falls >= back.length - 1 ? turn : names.length;
}

/** For each of the later groups the row of the forward pass beside which it stands: that of its name
 *  where the rows fall all along, else that of the one before. */
function rowsBeside(names, rows) {
  const wanted = names.map(name => rows.get(name)), best = wanted.map(() => 1), from = wanted.map(() => -1);
  let last = -1;
  wanted.forEach((row, i) => {
    if (row === undefined) return;
    for (let j = 0; j < i; ++j)
      if (wanted[j] !== undefined && wanted[j] >= row && best[j] + 1 > best[i]) [best[i], from[i]] = [best[j] + 1, j];
    if (last < 0 || best[i] > best[last]) last = i;
  });
  const fixed = new Set();
  for (let i = last; i >= 0; i = from[i]) fixed.add(i);
  let row = Math.max(0, ...rows.values());
  return names.map((_, i) => {
    if (fixed.has(i)) row = wanted[i];
    return i > last ? -1 : row;
  });
}

/** Places items {name, children, …} of one program, in its order; each gets x, y, width and height,
 *  those of children in their parent's. Returns {width, height, columns}. */
export function layOut(items, feeds) {
  const names = items.map(item => item.name), turn = turnOf(names);
  const rows = new Map(names.slice(0, turn).map((name, i) => [name, i]));
  const beside = rowsBeside(names.slice(turn), rows);
  items.forEach((item, i) => {
    item.column = i < turn ? 0 : beside[i - turn] >= 0 ? 1 : 2;
    arrange(item, feeds, item.column === 1);
  });
  const left = items.slice(0, turn), right = items.filter(item => item.column === 1), rest = items.filter(item => item.column === 2);
  const stacks = left.map(() => []);
  right.forEach((item, i) => stacks[beside[i]].push(item));
  const widths = [left, right, rest].map(column => Math.max(0, ...column.map(item => item.width)));
  const starts = [0, widths[0] + gap.column, widths[0] + widths[1] + 2 * gap.column];
  const heightOf = stack => stack.reduce((sum, item) => sum + item.height + gap.y, -gap.y);
  let y = 0;
  left.forEach((item, i) => {
    const height = Math.max(item.height, stacks[i].length ? heightOf(stacks[i]) : 0);
    Object.assign(item, {x: (widths[0] - item.width) / 2, y: y + (height - item.height) / 2});
    let bottom = y + height; // what runs first stands lowest
    for (const each of stacks[i]) {
      bottom -= each.height;
      Object.assign(each, {x: starts[1] + (widths[1] - each.width) / 2, y: bottom});
      bottom -= gap.y;
    }
    y += height + gap.y;
  });
  let end = 0;
  for (const item of rest) {
    Object.assign(item, {x: starts[2] + (widths[2] - item.width) / 2, y: end});
    end += item.height + gap.y;
  }
  const columns = rest.length ? 3 : right.length ? 2 : 1;
  return {width: starts[columns - 1] + widths[columns - 1], height: Math.max(y, end, gap.y) - gap.y, columns};
}
