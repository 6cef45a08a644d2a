// A program as a graph in the order of its commands, folded by the model's structure: layers and
// parts of them, as the names of their parameters say, and arcs from who writes to who reads.
import {Chart} from 'chart';
import {bytesText, color, countText, h, hueOf, table, timeText} from 'dom';
import {addressOf, bufferLink, go, kernelLink, lineLink, link} from 'place';

/** "grad.h.3.mlp.c_fc.weight" → ["h.3", "mlp"]; what has no number: ["wte"]. */
export function structureOf(name) {
  const parts = name.replace(/^grad\./, '').split('.');
  const number = parts.findIndex(part => /^\d+$/.test(part));
  return number < 0 ? parts.slice(0, 1) : [parts.slice(0, number + 1).join('.'), ...parts.slice(number + 1, number + 2)];
}

/** The place of a command between those of its states, behind a command at `last`: a kernel that ends
 *  one layer and begins the next stays where it stands; an update of many is of none of them. */
function placeOf(paths, last) {
  const layers = new Set(paths.map(path => path[0]));
  if (layers.size > 2) return ['several layers'];
  return paths.find(path => path[0] === last[0]) ?? paths.find(path => /\d/.test(path[0])) ?? paths[0];
}

/** The work of a program as nodes: {command, path, producers, consumers}. A command that touches no
 *  state belongs where the one before it does. */
export function nodesOf(variant, program) {
  const nodes = new Map(), writers = new Map();
  let path = [];
  for (const command of program.commands) {
    if (command.kind === 'record' || command.kind === 'wait') continue;
    const states = [...command.reads, ...command.writes].map(index => variant.buffers[index])
      .filter(buffer => ['parameter', 'optimizer', 'gradient'].includes(buffer.role));
    if (states.length) path = placeOf(states.map(buffer => structureOf(buffer.name)), path);
    const node = {command, path, producers: new Map(), consumers: new Map()};
    for (const index of command.reads) {
      const writer = writers.get(index);
      if (!writer || writer === node) continue;
      node.producers.set(writer, variant.buffers[index]);
      writer.consumers.set(node, variant.buffers[index]);
    }
    for (const index of command.writes) writers.set(index, node);
    nodes.set(command.index, node);
  }
  return [...nodes.values()];
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

/** What is to be seen: {name, depth, nodes, group or node}, by which groups are open. */
function rowsOf(groups, isOpen, depth = 0) {
  return groups.flatMap(group => {
    const row = {name: group.name, depth, nodes: group.nodes, group};
    if (!isOpen(group)) return [row];
    const inner = group.parts?.length > 1 ? rowsOf(group.parts, isOpen, depth + 1)
      : group.nodes.map(node => ({name: node.command.worker, depth: depth + 1, nodes: [node], node}));
    return [row, ...inner];
  });
}

const matches = (node, text) => [node.command.worker, node.command.label, node.command.line, ...node.path].some(each => each.toLowerCase().includes(text));

function nodePanel(variant, program, node) {
  const list = (neighbours, caption, id) => table(caption, ['command', 'kernel or call', 'by', 'type', 'line'], [...neighbours].map(([other, buffer]) => [
    link('graph', {program: program.name, command: other.command.index}, `${program.name}[${other.command.index}]`), other.command.worker,
    bufferLink(buffer, program), buffer.type, lineLink(other.command.line)]), {most: 30, id});
  const {command} = node;
  return [h('h2', {}, `${program.name}[${command.index}] ${command.worker}`),
    h('p', {id: 'node'}, `${node.path.join(', ') || 'before any layer'}; ${timeText(command.ns)} predicted, ${bytesText(command.bytes)} moved; for `, lineLink(command.line), '. ',
      command.kernel ? ['Kernel ', kernelLink(command.kernel), '. '] : '', link('schedule', {program: program.name, command: command.index}, 'In the schedule'), '.'),
    list(node.producers, 'Producers', 'producers'), list(node.consumers, 'Consumers', 'consumers')];
}

export function showGraph(element, {variant, stage, params}) {
  const program = variant.programs.find(each => each.name === params.program) ?? variant.programs[stage.runs[0][0]];
  const nodes = nodesOf(variant, program), groups = groupsOf(nodes);
  const chosen = nodes.find(node => String(node.command.index) === params.command), search = (params.search ?? '').toLowerCase();
  const open = new Set((params.open ?? '').split(',').filter(Boolean));
  const isOpen = group => params.open === 'all' || open.has(group.id) || (chosen && group.nodes.includes(chosen)) ||
    (search && group.nodes.some(node => matches(node, search)));
  const rows = rowsOf(groups, isOpen), rowAt = new Map();
  rows.forEach((row, index) => row.nodes.forEach(node => rowAt.set(node, index))); // the innermost one wins
  const edges = new Map();
  for (const node of nodes)
    for (const consumer of node.consumers.keys()) {
      const from = rowAt.get(node), to = rowAt.get(consumer);
      if (from !== to) edges.set(`${from} ${to}`, {from, to, isChosen: edges.get(`${from} ${to}`)?.isChosen || node === chosen || consumer === chosen});
    }
  const arcs = [...edges.values()];
  const place = more => ({program: program.name, command: params.command, search: params.search, open: params.open, ...more});
  const choose = h('select', {id: 'program', onchange: event => go('graph', {program: event.target.value})},
    variant.programs.map(each => h('option', {value: each.name, selected: each === program}, each.name)));
  const find = h('input', {type: 'search', id: 'search', value: params.search ?? '', onchange: () => go('graph', place({search: find.value, command: undefined}))});
  const hover = h('p', {className: 'quiet', id: 'hover', 'aria-live': 'polite'}, 'A press opens a layer or shows a command. Drag or arrow keys move, the wheel or + and − change the scale.');
  const canvas = h('canvas', {tabindex: 0, role: 'img', style: 'height: 540px', id: 'graph', 'aria-label': `Commands of ${program.name} and what they read of each other; the table below says the same`});
  element.append(h('div', {className: 'tools'}, h('label', {}, 'Program ', choose), h('label', {}, 'Search ', find),
    h('a', {href: addressOf('graph', place({open: 'all'}))}, 'Unfold all'), h('a', {href: addressOf('graph', {program: program.name})}, 'Fold all'),
    h('span', {id: 'counts', className: 'quiet'}, `${countText(nodes.length)} commands, ${countText(rows.length)} shown${search ? `, ${countText(nodes.filter(node => matches(node, search)).length)} found` : ''}`)),
  canvas, hover);
  const at = chosen ? rowAt.get(chosen) : search ? Math.max(0, rows.findIndex(row => row.node && matches(row.node, search))) : 0;
  const shown = Math.min(rows.length, 28), first = Math.max(0, Math.min(rows.length - shown, at - 12));
  const boxX = row => 0.01 + 0.03 * row.depth, boxEnd = 0.55;
  const times = rows.map(row => row.nodes.reduce((sum, node) => sum + node.command.ns, 0));
  const chart = new Chart(canvas, {
    x: [0, 1], y: [first + shown, first], xLabel: () => '', yLabel: () => '',
    draw: (context, {x, y}) => {
      const from = Math.max(0, Math.floor(Math.min(...chart.range.y))), to = Math.min(rows.length, Math.ceil(Math.max(...chart.range.y)));
      for (let i = from; i < to; ++i) {
        const row = rows[i], top = y(i) + 1, height = Math.max(1, y(i + 1) - y(i) - 2), left = x(boxX(row)), width = x(boxEnd) - left;
        context.fillStyle = `hsl(${hueOf(row.group ? row.name : row.node.command.line)} ${saturation} ${lightness})`;
        context.fillRect(left, top, width, height);
        if (row.node && (row.node === chosen || (search && matches(row.node, search)))) {
          context.strokeStyle = color('--accent');
          context.lineWidth = 2;
          context.strokeRect(left, top, width, height);
          context.lineWidth = 1;
        }
        if (height < 9) continue;
        context.fillStyle = color('--text');
        const text = row.group ? `${isOpen(row.group) ? '▾' : '▸'} ${row.name}: ${countText(row.nodes.length)} command${row.nodes.length === 1 ? '' : 's'}, ${timeText(times[i])}`
          : `${row.name}  ${row.node.command.line}`;
        context.fillText(text.slice(0, Math.floor(width / 6)), left + 4, top + height / 2 + 4);
      }
      for (const arc of arcs) {
        if (Math.max(arc.from, arc.to) < from || Math.min(arc.from, arc.to) > to) continue;
        const a = y(arc.from + 0.5), b = y(arc.to + 0.5), reach = x(boxEnd + 0.04 + 0.4 * Math.min(1, Math.log2(1 + Math.abs(arc.to - arc.from)) / 9));
        context.strokeStyle = arc.isChosen ? color('--accent') : color('--line');
        context.beginPath();
        context.moveTo(x(boxEnd), a);
        context.bezierCurveTo(reach, a, reach, b, x(boxEnd), b);
        context.stroke();
      }
    },
    find: (x, y) => {
      const row = rows[Math.floor(y)];
      return row && x >= boxX(row) && x <= boxEnd ? row : undefined;
    },
    hover: row => {
      if (!row) hover.textContent = '';
      else if (row.group) hover.textContent = `${row.name}: ${row.nodes.length} commands`;
      else {
        const texts = neighbours => [...neighbours].map(([node, buffer]) => `${node.command.worker} (${buffer.type})`).join(', ') || 'nobody';
        hover.textContent = `${row.name}, ${row.node.command.line || 'no line'}; from ${texts(row.node.producers)}; to ${texts(row.node.consumers)}`;
      }
    },
    choose: row => {
      if (row.node) go('graph', place({command: row.node.command.index}));
      else if (params.open !== 'all') {
        if (!open.delete(row.group.id)) open.add(row.group.id);
        go('graph', place({open: [...open].join(','), command: undefined}));
      }
    },
  });
  const saturation = color('--saturation'), lightness = color('--lightness');
  element.append(h('section', {id: 'panel', 'aria-label': 'Command'}, chosen ? nodePanel(variant, program, chosen) : []),
    table('What is shown', ['name', 'commands', 'predicted', ''], rows.map((row, i) => [
      row.node ? link('graph', place({command: row.node.command.index}), row.name)
        : h('a', {href: addressOf('graph', place({open: [...open, row.group.id].join(','), command: undefined}))}, row.name),
      countText(row.nodes.length), timeText(times[i]), row.node ? lineLink(row.node.command.line) : '']), {most: 60, id: 'shown'}));
  return () => chart.stop();
}
