// A program as a graph, folded by the model's structure: layers and parts of them, as the names of
// their parameters say, and curves from who writes to who reads.
import {Chart} from 'chart';
import {bytesText, color, countText, h, hueOf, table, timeText} from 'dom';
import {layOut} from 'layout';
import {addressOf, bufferLink, go, kernelLink, lineLink, link} from 'place';

const states = ['parameter', 'optimizer', 'gradient'];

/** "grad.h.3.mlp.c_fc.weight" → ["h.3", "mlp"]; what has no number: ["wte"]. */
export function structureOf(name) {
  const parts = name.replace(/^grad\./, '').split('.');
  const number = parts.findIndex(part => /^\d+$/.test(part));
  return number < 0 ? parts.slice(0, 1) : [parts.slice(0, number + 1).join('.'), ...parts.slice(number + 1, number + 2)];
}

/** Numbered names that are no layers: of a list of single parameters, as value_embeds.0. */
function singlesOf(variant) {
  const parts = new Map();
  for (const buffer of variant.buffers.filter(each => states.includes(each.role))) {
    const [layer, part] = structureOf(buffer.name);
    if (part) parts.set(layer, (parts.get(layer) ?? new Set()).add(part));
  }
  return new Set([...parts].filter(([, all]) => all.size < 2).map(([layer]) => layer));
}

/** The place of a command between those of its states, behind a command at `last`: a kernel that ends
 *  one layer and begins the next stays where it stands; an update of many is of none of them. */
function placeOf(paths, last, singles) {
  const layers = new Set(paths.map(path => path[0]));
  if (layers.size > 2) return ['several layers'];
  const inLayer = paths.filter(path => path.length > 1 && !singles.has(path[0]));
  if (!inLayer.length && last.length && paths.every(path => singles.has(path[0]))) return last;
  return inLayer.find(path => path[0] === last[0]) ?? inLayer[0] ?? paths[0];
}

/** What `make` has made of an object before, or makes of it now. */
function once(make) {
  const made = new WeakMap();
  return key => {
    if (!made.has(key)) made.set(key, make(key));
    return made.get(key);
  };
}

const pathOf = once(buffer => (states.includes(buffer.role) ? structureOf(buffer.name) : null));
const statesOf = (variant, command) => [...command.reads, ...command.writes].map(index => pathOf(variant.buffers[index])).filter(Boolean);

/** The part of a layer that most commands for a model line are of: what reads a copy of a weight, as
 *  the forward pass does, touches no state. */
const partsByLine = once(variant => {
  const counts = new Map();
  for (const command of variant.programs.flatMap(program => program.commands)) {
    const parts = new Set(statesOf(variant, command).filter(path => path.length > 1).map(path => path[1]));
    if (parts.size !== 1 || !command.line) continue;
    const [part] = parts, own = counts.get(command.line) ?? new Map();
    counts.set(command.line, own.set(part, (own.get(part) ?? 0) + 1));
  }
  return new Map([...counts].map(([line, own]) => [line, [...own].sort((a, b) => b[1] - a[1])[0][0]]));
});

/** The work of a program as nodes: {command, path, producers, consumers}, the latter lists of
 *  [node, buffer]. A command that touches no state belongs to the layer where the one before it does,
 *  and so does one that only clears them. */
export function nodesOf(variant, program) {
  const nodes = [], writers = new Map(), singles = singlesOf(variant), parts = partsByLine(variant);
  let path = [];
  for (const command of program.commands) {
    if (command.kind === 'record' || command.kind === 'wait') continue;
    const touched = statesOf(variant, command), part = parts.get(command.line);
    let own = path;
    if (touched.length && command.reads.length) own = placeOf(touched, path, singles);
    else if (part && path.length > 1) own = [path[0], part];
    if (own[0] !== 'several layers' || !path.length) path = own;
    const node = {command, path: own, producers: [], consumers: []};
    for (const index of command.reads) {
      const writer = writers.get(index);
      if (!writer || writer === node) continue;
      node.producers.push([writer, variant.buffers[index]]);
      writer.consumers.push([node, variant.buffers[index]]);
    }
    for (const index of command.writes) writers.set(index, node);
    nodes.push(node);
  }
  return nodes;
}

/** Neighbours of one place together: {id, name, nodes, parts}, two levels deep. */
export function groupsOf(nodes, level = 0, prefix = '') {
  const groups = [];
  for (const node of nodes) {
    const name = node.path[level] ?? node.path[node.path.length - 1] ?? 'before any layer';
    const last = groups[groups.length - 1];
    if (last?.name === name) last.nodes.push(node);
    else groups.push({id: `${prefix}${groups.length}`, name, nodes: [node]});
  }
  if (level === 0) for (const group of groups) group.parts = groupsOf(group.nodes, 1, `${group.id}.`);
  return groups;
}

/** What is to be seen: {name, group or node, nodes, children}, by which groups are open. */
function itemsOf(groups, isOpen) {
  return groups.map(group => {
    const item = {name: group.name, group, nodes: group.nodes, children: []};
    if (isOpen(group)) {
      item.children = group.parts?.length > 1 ? itemsOf(group.parts, isOpen)
        : group.nodes.map(node => ({name: node.command.worker, node, nodes: [node], children: []}));
    }
    return item;
  });
}

/** The picture of a program: {boxes, edges, width, height}. Boxes are items with their place in the
 *  whole, parents first; edges have who writes, who reads, the buffers between them and a curve. */
export function pictureOf(groups, isOpen) {
  const items = itemsOf(groups, isOpen), sets = new Map();
  const setsOf = item => {
    if (!sets.has(item)) sets.set(item, [new Set(item.nodes), new Set(item.nodes.flatMap(node => node.producers.map(([producer]) => producer)))]);
    return sets.get(item);
  };
  const feeds = (from, to) => {
    const [nodes] = setsOf(from);
    for (const producer of setsOf(to)[1]) if (nodes.has(producer)) return true;
    return false;
  };
  const size = layOut(items, feeds), boxes = [], innermost = new Map();
  const place = (item, x, y, depth, column) => {
    Object.assign(item, {left: x + item.x, top: y + item.y, depth, column});
    boxes.push(item);
    for (const node of item.nodes) innermost.set(node, item);
    for (const child of item.children) place(child, item.left, item.top, depth + 1, column);
  };
  for (const item of items) place(item, 0, 0, 0, item.column);
  const found = new Map();
  boxes.forEach((box, i) => { box.index = i; });
  for (const [node, to] of innermost)
    for (const [producer, buffer] of node.producers) {
      const from = innermost.get(producer), key = from.index * boxes.length + to.index;
      if (from === to) continue;
      if (!found.has(key)) found.set(key, {from, to, buffers: new Set()});
      found.get(key).buffers.add(buffer);
    }
  const edges = [...found.values()].map(edge => ({...edge, bytes: [...edge.buffers].reduce((sum, buffer) => sum + buffer.bytes, 0), curve: curveOf(edge.from, edge.to)}));
  return {boxes, edges: edges.sort((a, b) => b.bytes - a.bytes), ...size};
}

/** From who writes to who reads: to a neighbour in the direction of the column, past others in a bow
 *  outside of it, to another column from side to side. [x, y] four times. */
function curveOf(from, to) {
  const middle = box => box.left + box.width / 2, center = box => box.top + box.height / 2;
  if (from.column !== to.column) {
    const x1 = from.left + from.width, x2 = to.left, half = (x2 - x1) / 2;
    return [x1, center(from), x1 + half, center(from), x2 - half, center(to), x2, center(to)];
  }
  const isUp = from.column === 1, [upper, lower] = isUp ? [to, from] : [from, to], distance = lower.top - upper.top - upper.height;
  if (distance >= 0 && distance < 40) {
    const y1 = isUp ? from.top : from.top + from.height, y2 = isUp ? to.top + to.height : to.top, half = (y2 - y1) / 2;
    return [middle(from), y1, middle(from), y1 + half, middle(to), y2 - half, middle(to), y2];
  }
  const side = box => (isUp ? box.left + box.width : box.left), bow = (isUp ? 1 : -1) * (18 + 13 * Math.log2(1 + Math.abs(distance) / 40));
  const reach = (isUp ? Math.max : Math.min)(side(from), side(to)) + bow;
  return [side(from), center(from), reach, center(from), reach, center(to), side(to), center(to)];
}

const matches = (node, text) => [node.command.worker, node.command.label, node.command.line, ...node.path].some(each => each.toLowerCase().includes(text));

function nodePanel(variant, program, node) {
  const list = (neighbours, caption, id) => table(caption, ['command', 'kernel or call', 'by', 'type', 'line'], neighbours.map(([other, buffer]) => [
    link('graph', {program: program.name, command: other.command.index}, `${program.name}[${other.command.index}]`), other.command.worker,
    bufferLink(buffer, program), buffer.type, lineLink(other.command.line)]), {most: 30, id});
  const {command} = node;
  return [h('h2', {}, `${program.name}[${command.index}] ${command.worker}`),
    h('p', {id: 'node'}, `${node.path.join(', ') || 'before any layer'}; ${timeText(command.ns)} predicted, ${bytesText(command.bytes)} moved; for `, lineLink(command.line), '. ',
      command.kernel ? ['Kernel ', kernelLink(command.kernel), '. '] : '', link('schedule', {program: program.name, command: command.index}, 'In the schedule'), '.'),
    list(node.producers, 'Producers', 'producers'), list(node.consumers, 'Consumers', 'consumers')];
}

/** Boxes and curves on a canvas; `state` has what is chosen, found by a search, and pointed at. */
function paint(context, {x, y}, canvas, picture, state) {
  const {boxes, edges} = picture, {clientWidth, clientHeight} = canvas;
  const isSeen = (left, top, right, bottom) => x(right) > 0 && x(left) < clientWidth && y(bottom) > 0 && y(top) < clientHeight;
  const box = (each, fill, stroke, lineWidth = 1) => {
    const left = x(each.left), top = y(each.top), width = x(each.left + each.width) - left, height = y(each.top + each.height) - top;
    if (fill) {
      context.fillStyle = fill;
      context.fillRect(left, top, width, height);
    }
    if (stroke && width > 4) {
      context.strokeStyle = stroke;
      context.lineWidth = lineWidth;
      context.strokeRect(left, top, width, height);
    }
    return {left, top, width, height};
  };
  const seen = boxes.filter(each => isSeen(each.left, each.top, each.left + each.width, each.top + each.height));
  for (const each of seen) if (each.children.length) box(each, state.colors.panel, state.colors.line);
  const isLit = edge => state.lit && [edge.from, edge.to].some(each => each === state.lit);
  const line = list => {
    context.beginPath();
    for (const {curve: [x1, y1, x2, y2, x3, y3, x4, y4]} of list) {
      context.moveTo(x(x1), y(y1));
      context.bezierCurveTo(x(x2), y(y2), x(x3), y(y3), x(x4), y(y4));
    }
    context.stroke();
  };
  const near = [];
  for (const edge of edges) {
    const [x1, y1, x2, , , , x4, y4] = edge.curve;
    if (isSeen(Math.min(x1, x2, x4), Math.min(y1, y4), Math.max(x1, x2, x4), Math.max(y1, y4)) && near.push(edge) === mostCurves) break;
  }
  context.lineWidth = 1;
  context.strokeStyle = state.colors.line;
  line(near);
  context.lineWidth = 1.8;
  context.strokeStyle = state.colors.accent;
  line(edges.filter(isLit));
  context.fillStyle = state.colors.text;
  for (const each of seen) {
    const isMarked = each.node && (each.node === state.chosen || state.isFound(each.node));
    const {left, top, width, height} = each.children.length ? box(each) : box(each, each.fill, isMarked || each === state.lit ? state.colors.accent : null, 2);
    if (y(each.top + 22) - y(each.top) < 9) continue;
    context.fillStyle = state.colors.text;
    context.fillText(each.text.slice(0, Math.floor(width / 6.8)), left + 4, each.children.length ? top + 13 : top + height / 2 + 4);
  }
}

/** Curves that are drawn at a time, those of the most bytes: more of them are one grey. */
const mostCurves = 500;

const typesOf = pairs => [...new Set(pairs.map(([, buffer]) => buffer))].map(buffer => `${buffer.name} ${buffer.type}`);
const some = (texts, most = 4) => (texts.length ? texts.slice(0, most).join(', ') + (texts.length > most ? ` and ${texts.length - most} more` : '') : '');

/** What a box is: what it writes, by shape and type, from whom and to whom. */
function hoverText(variant, box) {
  const own = new Set(box.nodes), others = part => box.nodes.flatMap(node => node[part].filter(([other]) => !own.has(other)));
  const from = others('producers'), to = others('consumers'), names = pairs => some([...new Set(pairs.map(([node]) => node.command.worker))]) || 'nobody';
  const writes = box.node ? box.node.command.writes.map(index => variant.buffers[index]).map(buffer => `${buffer.name} ${buffer.type}`) : typesOf(to);
  return `${box.text}${box.node ? `, ${timeText(box.node.command.ns)}` : ''}; writes ${some(writes) || 'nothing'}; reads ${some(typesOf(from)) || 'nothing of them'}; from ${names(from)}; to ${names(to)}`;
}

export function showGraph(element, {variant, stage, params}) {
  const program = variant.programs.find(each => each.name === params.program) ?? variant.programs[stage.runs[0][0]];
  const nodes = nodesOf(variant, program), groups = groupsOf(nodes);
  const chosen = nodes.find(node => String(node.command.index) === params.command), search = (params.search ?? '').toLowerCase();
  const open = new Set((params.open ?? '').split(',').filter(Boolean));
  const isOpen = group => params.open === 'all' || open.has(group.id) || (chosen && group.nodes.includes(chosen)) ||
    (search && group.nodes.some(node => matches(node, search)));
  const picture = pictureOf(groups, isOpen), {boxes} = picture;
  const saturation = color('--saturation'), lightness = color('--lightness');
  for (const box of boxes) {
    box.ns = box.nodes.reduce((sum, node) => sum + node.command.ns, 0);
    box.text = box.group ? `${box.children.length ? '▾' : '▸'} ${box.name}: ${countText(box.nodes.length)}, ${timeText(box.ns)}`
      : `${box.name}  ${box.node.command.line.split('/').pop()}`;
    box.fill = `hsl(${hueOf(box.group ? box.name : box.node.command.line)} ${saturation} ${lightness})`;
  }
  const place = more => ({program: program.name, command: params.command, search: params.search, open: params.open, ...more});
  const choose = h('select', {id: 'program', onchange: event => go('graph', {program: event.target.value})},
    variant.programs.map(each => h('option', {value: each.name, selected: each === program}, each.name)));
  const find = h('input', {type: 'search', id: 'search', value: params.search ?? '', onchange: () => go('graph', place({search: find.value, command: undefined}))});
  const hover = h('p', {className: 'quiet', id: 'hover', 'aria-live': 'polite'}, 'A press opens a layer or shows a command. Drag or arrow keys move, the wheel or + and − change the scale. ' +
    'The forward pass goes down, the backward pass beside it up.');
  const canvas = h('canvas', {tabindex: 0, role: 'img', style: 'height: 600px', id: 'graph', 'aria-label': `Commands of ${program.name} and what they read of each other; the table below says the same`});
  const found = nodes.filter(node => search && matches(node, search));
  element.append(h('div', {className: 'tools'}, h('label', {}, 'Program ', choose), h('label', {}, 'Search ', find),
    h('a', {href: addressOf('graph', place({open: 'all'}))}, 'Unfold all'), h('a', {href: addressOf('graph', {program: program.name})}, 'Fold all'),
    h('span', {id: 'counts', className: 'quiet'}, `${countText(nodes.length)} commands, ${countText(boxes.length)} shown${search ? `, ${countText(found.length)} found` : ''}` +
      (picture.edges.length > mostCurves ? `; the ${countText(mostCurves)} curves of the most bytes in sight are drawn` : ''))),
  canvas, hover);
  const colors = Object.fromEntries(['panel', 'line', 'accent', 'text'].map(name => [name, color(`--${name}`)]));
  const isFound = node => search !== '' && matches(node, search);
  const state = {colors, chosen, isFound, lit: boxes.find(box => box.node && box.node === chosen)};
  const focus = state.lit ?? boxes.find(box => box.node && isFound(box.node)), width = Math.min(Math.max(picture.width + 240, 900), 1500, Math.max(400, canvas.clientWidth / 0.7)); // of which texts can be read
  const middle = (picture.width - width) / 2, inSight = focus && focus.left > middle && focus.left + focus.width < middle + width;
  const left = !focus ? Math.min(middle, -120) : inSight ? middle : focus.left + focus.width / 2 - width / 2;
  const chart = new Chart(canvas, {
    x: [left, left + width], y: [focus ? focus.top - 200 : -12, 0], isUniform: true, margin: 0, bottom: 0, xLabel: () => '',
    draw: (context, at) => paint(context, at, canvas, picture, state),
    find: (x, y) => boxes.findLast(box => box.left <= x && x < box.left + box.width && box.top <= y && y < box.top + box.height),
    hover: box => {
      if (box) hover.textContent = hoverText(variant, box);
      const lit = box && !box.children.length ? box : boxes.find(each => each.node && each.node === chosen);
      if (lit === state.lit) return;
      state.lit = lit;
      chart.request();
    },
    choose: box => {
      if (box.node) go('graph', place({command: box.node.command.index}));
      else if (params.open !== 'all') {
        if (!open.delete(box.group.id)) open.add(box.group.id);
        go('graph', place({open: [...open].join(','), command: undefined}));
      }
    },
  });
  canvas.picture = picture;
  element.append(h('section', {id: 'panel', 'aria-label': 'Command'}, chosen ? nodePanel(variant, program, chosen) : []),
    table('What is shown', ['name', 'commands', 'predicted', ''], boxes.map(box => [
      box.node ? link('graph', place({command: box.node.command.index}), box.name)
        : h('a', {href: addressOf('graph', place({open: [...open, box.group.id].join(','), command: undefined}))}, box.name),
      countText(box.nodes.length), timeText(box.ns), box.node ? lineLink(box.node.command.line) : '']), {most: 60, id: 'shown'}));
  return () => chart.stop();
}
