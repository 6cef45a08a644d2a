// The model file by its lines: what runs for a line, its buffers, its remarks; and a kernel with its
// lines and its text.
import {memoryOf, resourcesOf, runsOf} from 'data';
import {bar, bytesText, countText, h, shareText, showEntry, table, timeText} from 'dom';
import {addressOf, bufferLink, kernelLink, lineLink, link} from 'place';

/** Files that anything was made for, the model's own first. */
function filesOf(doc, variant) {
  const files = new Map();
  const note = line => {
    const [, file, number] = /^(.*):(\d+)$/.exec(line) ?? [];
    if (!file) return;
    if (!files.has(file)) files.set(file, new Set());
    files.get(file).add(Number(number));
  };
  doc.kernels.forEach(kernel => kernel.lines.forEach(note));
  variant.buffers.forEach(buffer => note(buffer.line));
  variant.programs.forEach(program => program.commands.forEach(command => note(command.line)));
  if (doc.failure) { // nothing runs: lines are those that ops are left of
    doc.passes.stages.forEach(each => Object.keys(each.ops).forEach(note));
    note(doc.failure.line);
  }
  const isModel = file => file.split('/').pop().replace(/\.[^.]*$/, '') === doc.model;
  return [...files].map(([name, lines]) => ({name, lines, text: doc.files?.[name] ?? (isModel(name) ? doc.source : null)}))
    .sort((a, b) => (a.text === null) - (b.text === null) || b.lines.size - a.lines.size || a.name.localeCompare(b.name));
}

/** "models/x.cpp:41" → remarks of the compilation. */
export function remarksByLine(doc) {
  const found = new Map();
  for (const pass of doc.passes?.passes ?? [])
    for (const remark of pass.remarks) {
      const [, line, text] = /^(.*?:\d+): remark: ([^]*)$/.exec(remark) ?? [null, '', remark];
      if (!found.has(line)) found.set(line, new Set());
      found.get(line).add(text.replace(/\b\d{4,} bytes/, bytes => bytesText(Number.parseInt(bytes, 10))));
    }
  return found;
}

function sourceList(doc, file, costs, remarks, chosen) {
  const total = [...costs.values()].reduce((sum, cost) => sum + cost.ns, 0);
  const most = Math.max(1, ...[...costs].filter(([line]) => line.startsWith(`${file.name}:`)).map(([, cost]) => cost.ns));
  const texts = file.text === null ? null : file.text.replace(/\n$/, '').split('\n');
  const numbers = texts ? texts.map((_, i) => i + 1) : [...file.lines].sort((a, b) => a - b);
  return h('ol', {className: 'source', id: 'source', 'aria-label': `Lines of ${file.name}`}, numbers.map(number => {
    const line = `${file.name}:${number}`, cost = costs.get(line);
    return h('li', {},
      h('a', {href: addressOf('model', {line}), 'data-line': line, 'aria-current': line === chosen ? 'true' : null,
        title: cost ? `${timeText(cost.ns)}, ${bytesText(cost.bytes)} moved` : null},
        h('span', {className: 'at'}, String(number)), cost ? bar(cost.ns / most) : h('span'),
        h('span', {className: 'at'}, cost ? shareText(cost.ns, total) : ''), h('span', {}, texts ? texts[number - 1] : '')),
      [...(remarks.get(line) ?? [])].map(text => h('div', {className: 'remark'}, text)),
      doc.failure?.line === line ? h('div', {className: 'error', role: 'alert'}, doc.failure.message) : null);
  }));
}

/** Cost of every line: of the commands that are for it. */
function costsByLine(runs) {
  const costs = new Map();
  for (const {command, times} of runs) {
    const cost = costs.get(command.line) ?? {launches: 0, ns: 0, bytes: 0, flops: 0};
    cost.launches += times;
    cost.ns += times * command.ns;
    cost.bytes += times * command.bytes;
    cost.flops += times * command.flops;
    costs.set(command.line, cost);
  }
  return costs;
}

const sumOf = runs => [...costsByLine(runs.map(run => ({...run, command: {...run.command, line: ''}}))).values()][0] ??
  {launches: 0, ns: 0, bytes: 0, flops: 0};

function costText(cost, all) {
  return `${countText(cost.launches)} launch${cost.launches === 1 ? '' : 'es'} a step, ${timeText(cost.ns)} predicted (${shareText(cost.ns, all)} of all), ` +
    `${bytesText(cost.bytes)} moved${cost.flops ? `, ${cost.flops.toExponential(3)} operations` : ''}`;
}

/** Microseconds that a profile measured, a step of rank 0, by a column of its rows. */
function measured(doc, column, value) {
  const rows = doc.profile?.rows.filter(row => row[0] === 0) ?? [];
  const own = rows.filter(row => row[column] === value);
  if (!own.length) return null;
  const sum = all => all.reduce((ns, row) => ns + row[3], 0);
  return h('p', {id: 'measured'}, `Measured in step ${doc.profile.step} on ${doc.profile.device}: ${timeText(sum(own))} on rank 0, ${shareText(sum(own), sum(rows))} of all.`);
}

const commandRow = (variant, {program, command, times}) => [
  link('schedule', {program: program.name, command: command.index}, `${program.name}[${command.index}]`),
  command.kernel ? kernelLink(command.kernel) : command.worker, command.label === command.worker ? '' : command.label, times === 1 ? 'once' : `${countText(times)} times`,
  timeText(command.ns), bytesText(command.bytes)];
const commandHeads = ['command', 'kernel or call', 'label', 'a step', 'each', 'moved'];

function linePanel({doc, variant, stage}, line, runs, all) {
  const own = runs.filter(run => run.command.line === line);
  const fused = runs.filter(run => run.command.line !== line && run.command.kernel?.lines.includes(line));
  const panel = [h('h2', {}, line)];
  if (doc.failure?.line === line) panel.push(h('p', {className: 'error', id: 'failure'}, doc.failure.message));
  if (!doc.failure) panel.push(h('p', {id: 'cost'}, costText(sumOf(own), all)), measured(doc, 6, line));
  const remarks = [...(remarksByLine(doc).get(line) ?? [])];
  if (remarks.length)
    panel.push(h('h3', {}, 'What the passes say of it'), h('ul', {id: 'remarks'}, remarks.map(text => h('li', {}, text))));
  const heavy = list => [...list].sort((a, b) => b.times * b.command.ns - a.times * a.command.ns);
  if (!doc.failure)
    panel.push(table('What runs for it', commandHeads, heavy(own).map(run => commandRow(variant, run)), {most: 20, id: 'own'}));
  if (fused.length)
    panel.push(table('As a part of kernels that are listed under other lines', commandHeads,
      heavy(fused).map(run => commandRow(variant, run)), {most: 20, id: 'fused'}));
  const kernels = doc.kernels.filter(kernel => kernel.lines.includes(line));
  const resources = resourcesOf(doc, doc.hash), known = resources.size ? ['registers', 'spilled'] : [];
  if (kernels.length)
    panel.push(table('Kernels that compute it', ['kernel', 'does', ...known, 'shared memory', 'other lines'], kernels.map(kernel => [kernelLink(kernel), kernel.summary,
      ...known.length ? [String(resources.get(kernel.name)?.registers ?? ''), bytesText(resources.get(kernel.name)?.local ?? 0)] : [],
      kernel.shared ? bytesText(kernel.shared) : '', kernel.lines.filter(other => other !== line).map((other, i) => [i ? ', ' : '', lineLink(other)])]), {most: 20, id: 'kernels'}));
  const atPeak = variant.programs.flatMap(program => {
    const memory = memoryOf(variant, program);
    const bytes = memory.holders.filter(life => life.buffer.line === line).reduce((sum, life) => sum + life.buffer.bytes, 0);
    return bytes ? [[link('memory', {program: program.name}, program.name), bytesText(bytes), shareText(bytes, memory.most)]] : [];
  });
  if (atPeak.length) panel.push(table("What it holds at a program's peak", ['program', 'bytes', 'of all'], atPeak, {id: 'peaks'}));
  const buffers = variant.buffers.filter(buffer => buffer.line === line).sort((a, b) => b.bytes - a.bytes);
  if (buffers.length)
    panel.push(table(`Its buffers, ${bytesText(buffers.reduce((sum, buffer) => sum + buffer.bytes, 0))} in all, which may share bytes`,
      ['buffer', 'type', 'bytes'], buffers.map(buffer => [bufferLink(buffer), buffer.type, bytesText(buffer.bytes)]), {most: 20, id: 'buffers'}));
  const stages = (doc.passes?.stages ?? []).filter(each => each.ops[line]);
  if (stages.length)
    panel.push(table('Its ops after each stage', ['stage', 'ops'], stages.map(each => [each.name,
      each.ops[line].map(([op, count]) => `${doc.texts[op]}${count > 1 ? ` ×${count}` : ''}`).join(', ')]), {id: 'ops'}));
  return panel;
}

function kernelPanel({doc, variant}, kernel, runs, all) {
  const own = runs.filter(run => run.command.kernel === kernel), facts = [], made = resourcesOf(doc, doc.hash).get(kernel.name);
  if (made) facts.push(`${made.registers} registers a thread`, made.local ? `${countText(made.local)} bytes of local memory a thread, where registers spill` : 'nothing spilled');
  if (kernel.threads) facts.push(`${kernel.threads} threads a block`, `${countText(kernel.perBlock)} iterations a block`);
  if (kernel.shared) facts.push(`${countText(kernel.shared)} bytes of shared memory`);
  if (kernel.cluster > 1) facts.push(`clusters of ${kernel.cluster} blocks`);
  if (kernel.scratch) facts.push(`${countText(kernel.scratch)} bytes of scratch a thread`);
  const panel = [h('h2', {}, `Kernel ${kernel.name}`), h('p', {}, kernel.summary),
    h('p', {id: 'lines'}, 'From ', kernel.lines.map((line, i) => [i ? ', ' : '', lineLink(line)])),
    facts.length ? h('p', {id: 'resources'}, `${facts.join(', ')}.${made || !kernel.source ? '' : " Registers are chosen by the GPU's own compiler: a log of a run on a GPU, given with --run, has them."}`) : null,
    own.length ? h('p', {id: 'cost'}, costText(sumOf(own), all))
      : h('p', {id: 'cost'}, 'No program of a step launches it: it is of validation, sampling or a measurement.'),
    measured(doc, 7, kernel.name)];
  panel.push(table('Its launches', commandHeads, own.map(run => commandRow(variant, run)), {most: 20, id: 'own'}));
  const text = doc.sources[kernel.source] ?? doc.passes?.kernels[kernel.name];
  panel.push(text ? h('div', {}, h('h3', {}, kernel.source || 'The loops that its native code was made of'), h('pre', {id: 'text', tabindex: 0}, text))
    : h('p', {className: 'missing', id: 'text'}, 'Its code in the plan is native; nanoc compile --explore has the loops that it was made of.'));
  return panel;
}

export function showModel(element, context) {
  const {doc, variant, stage, params} = context;
  const runs = runsOf(variant, stage), all = runs.reduce((sum, run) => sum + run.times * run.command.ns, 0);
  const kernel = doc.kernels.find(each => each.name === params.kernel);
  const files = filesOf(doc, variant), remarks = remarksByLine(doc), costs = costsByLine(runs);
  const wanted = params.line?.replace(/:\d+$/, '') ?? params.file ?? kernel?.lines[0]?.replace(/:\d+$/, '');
  const failing = doc.failure?.line.replace(/:\d+$/, '');
  const file = files.find(each => each.name === wanted) ?? files.find(each => each.name === failing) ?? files[0];
  const panel = kernel ? kernelPanel(context, kernel, runs, all)
    : params.line ? linePanel(context, params.line, runs, all)
      : [h('p', {}, 'A line shows what the compiler made of it: its ops, kernels, buffers and cost. A kernel leads back to its lines.'),
        remarks.has('') && table('Remarks without a line', ['remark'], [...(remarks.get('') ?? [])].map(text => [text]), {id: 'remarks'})];
  const left = h('section', {'aria-label': 'Model file'},
    h('p', {className: 'tools'}, files.map(each => h('a', {href: addressOf('model', {file: each.name}), 'aria-current': each === file ? 'page' : null}, each.name))),
    file && file.text === null ? h('p', {className: 'missing'}, `The plan holds the text of ${doc.model}'s own file only; these are the lines of ${file.name} that something was made for. nanoc compile --explore has their text.`) : null,
    file ? sourceList(doc, file, costs, remarks, params.line) : null);
  const right = h('section', {'aria-label': kernel ? 'Kernel' : 'Line', id: 'panel'}, panel.filter(Boolean));
  element.append(h('div', {className: 'split'}, left, right));
  const mark = left.querySelector(`a[aria-current=true]`) ??
    [...left.querySelectorAll('a[data-line]')].find(a => kernel?.lines.includes(a.dataset.line) || a.dataset.line === doc.failure?.line);
  showEntry(mark);
}
