// The passes of a compilation: what each took, what it changed, what it says of itself.
import {bytesText, countText, h, shareText, showEntry, table, timeText} from 'dom';
import {addressOf, lineLink} from 'place';

/** Texts of Markdown between `…`, as code. */
const spans = text => text.split(/(`[^`]+`)/).map(part => (/^`[^`]+`$/.test(part) ? h('code', {}, part.slice(1, -1)) : part));

/** A pass's prose: paragraphs, examples between ```, lists, tables as they are written. */
function markdown(text) {
  return text.split(/(^```[^]*?^```)/m).flatMap(part => {
    if (part.startsWith('```')) return [h('pre', {tabindex: 0}, part.replace(/^```\w*\n/, '').replace(/\n?```$/, ''))];
    return part.split(/\n\s*\n/).map(each => each.trim()).filter(Boolean).map(each => {
      if (each.startsWith('#')) return h('h4', {}, each.replace(/^#+ */, ''));
      if (/^[*-] /.test(each)) return h('ul', {}, each.split(/^[*-] /m).filter(Boolean).map(item => h('li', {}, spans(item.trim()))));
      if (each.startsWith('|')) return h('pre', {}, each);
      return h('p', {}, spans(each.replace(/^_([^]*)_$/, '$1').replace(/\n/g, ' ')));
    });
  });
}

/** IR whose names of values light up, on both sides, where they are the same. */
function irText(text, className, names) {
  const parts = text.replace(/\n$/, '').split(/([%^][\w#]+)/);
  return h('pre', {className, tabindex: 0}, parts.map((part, i) =>
    (i % 2 ? h('span', {className: 'value', 'data-value': names.get(part) ?? `${className} ${part}`}, part) : part)));
}

export function regionView(region) {
  const names = new Map(region.same.flatMap(([before, after]) => [[before, `= ${after}`]]));
  const back = new Map(region.same.map(([, after]) => [after, `= ${after}`]));
  return h('div', {className: 'region'},
    region.lead ? irText(region.lead, 'lead', back) : null,
    h('div', {className: 'diff'},
      h('div', {}, h('div', {className: 'quiet'}, `line ${region.a}`), region.before ? irText(region.before, 'removed', names) : h('p', {className: 'quiet'}, 'nothing')),
      h('div', {}, h('div', {className: 'quiet'}, `line ${region.b}`), region.after ? irText(region.after, 'added', back) : h('p', {className: 'quiet'}, 'nothing'))),
    region.leftOut ? h('p', {className: 'missing'}, `${countText(region.leftOut)} more lines of both are not in this page.`) : null);
}

function light(element) {
  element.addEventListener('pointerover', event => {
    const value = event.target.dataset?.value, box = event.target.closest?.('.region');
    element.querySelectorAll('.value.same').forEach(each => each.classList.remove('same'));
    if (value && box)
      box.querySelectorAll('.value').forEach(each => each.classList.toggle('same', each.dataset.value === value));
  });
  return element;
}

function functionView(change, isOpen) {
  const ops = change.opsBefore === 0 ? `new, ${countText(change.opsAfter)} ops` : change.opsAfter === 0 ? `gone, ${countText(change.opsBefore)} ops`
    : `${countText(change.opsBefore)} → ${countText(change.opsAfter)} ops`;
  const left = change.leftOut ? h('p', {className: 'missing'}, `${countText(change.leftOut)} more changed region${change.leftOut === 1 ? ' is' : 's are'} not in this page: nanoc compile --dump-ir writes all of the IR.`) : null;
  const details = h('details', {open: isOpen, 'data-function': change.name}, h('summary', {}, `${change.name}: ${ops}, ${countText(change.regions.length + change.leftOut)} changed regions`));
  const fill = () => {
    if (details.childElementCount === 1) details.append(...change.regions.map(regionView), ...(left ? [left] : []));
  };
  details.addEventListener('toggle', fill);
  if (isOpen) fill();
  return details;
}

/** A number before and after, as one where it stays; nothing where it is not known behind the pass. */
const changeText = ([before, after], text) => (after === null ? '' : before === null || text(before) === text(after) ? text(after) : `${text(before)} → ${text(after)}`);

/** Passes of all numbers of ranks, and of the one that is chosen, in all stages of the run. */
const isOf = (pass, variant, stage) => (pass.world === 0 || pass.world === variant.world) && (!pass.runStage || pass.runStage === stage.name);
const titleOf = pass => `${pass.pass}${pass.runStage ? ` (${pass.runStage})` : ''}`;

export function showPipeline(element, {doc, variant, stage, params}) {
  if (!doc.passes) {
    element.append(h('p', {className: 'missing'}, 'A plan does not hold what the passes did: nanoc compile … --explore OUT.html shows it.'));
    return undefined;
  }
  const passes = doc.passes.passes.filter(pass => isOf(pass, variant, stage));
  const chosen = passes[Number(params.pass)] ?? null;
  const total = doc.passes.phases.reduce((sum, [, ns]) => sum + ns, 0), phases = new Map(doc.passes.phases);
  const stages = doc.passes.stages.map(each => h('section', {'aria-label': `Stage ${each.name}`, 'data-stage': each.name},
    h('h3', {title: each.summary}, `${each.name} `, h('span', {className: 'quiet'}, phases.has(each.name) ? `${timeText(phases.get(each.name))}, ${shareText(phases.get(each.name), total)}` : '')),
    h('p', {className: 'quiet summary'}, each.summary),
    h('ol', {className: 'passes'}, passes.map((pass, index) => [pass, index]).filter(([pass]) => pass.stage === each.name).map(([pass, index]) => h('li', {},
      h('a', {href: addressOf('pipeline', {pass: index}), 'data-pass': pass.pass, 'aria-current': pass === chosen ? 'true' : null},
        h('span', {}, titleOf(pass)), h('span', {className: 'number'}, timeText(pass.ns)),
        h('span', {className: 'number figure'}, changeText([pass.opsBefore, pass.opsAfter], countText)),
        h('span', {className: 'number figure'}, changeText(pass.kernels, countText)), h('span', {className: 'number figure'}, changeText(pass.bytes, bytesText)),
        h('span', {className: pass.failed ? 'number error' : 'number', title: pass.failed ? 'it reported the error' : 'remarks'},
          pass.failed ? 'failed' : pass.remarks.length ? `${pass.remarks.length} ⚑` : '')))))));
  const others = [...phases].filter(([name]) => !doc.passes.stages.some(each => each.name === name));
  if (others.length) stages.push(table('Beside the stages', ['phase', 'took', ''], others.map(([name, ns]) => [name, timeText(ns), shareText(ns, total)]), {id: 'phases'}));
  stages.unshift(h('p', {className: 'passes heads quiet', 'aria-hidden': 'true'}, ['pass', 'took', 'ops', 'kernels and calls', 'bytes moved', ''].map((head, i) => h('span', {className: i === 0 ? '' : i > 1 && i < 5 ? 'number figure' : 'number'}, head))));
  const panel = [], beside = [];
  if (chosen) {
    panel.push(h('h2', {}, titleOf(chosen)), h('p', {id: 'pass'}, `Stage ${chosen.stage}, ${timeText(chosen.ns)}, ${countText(chosen.opsBefore)} ops before, ${countText(chosen.opsAfter)} after.`),
      chosen.kernels[1] === null ? null : h('p', {id: 'work'}, `Its programs, each once, run ${changeText(chosen.kernels, countText)} kernels and library calls` +
        `${chosen.bytes[1] === null ? '' : `, which move ${changeText(chosen.bytes, bytesText)}`}.`));
    if (chosen.failed)
      panel.push(h('p', {className: 'error', id: 'failure'}, doc.failure.line ? [lineLink(doc.failure.line), ': '] : '', doc.failure.message));
    if (chosen.remarks.length)
      panel.push(h('h3', {}, 'Remarks'), h('ul', {id: 'remarks'}, chosen.remarks.map(remark => {
        const [, line, text] = /^(.*?:\d+): remark: ([^]*)$/.exec(remark) ?? [null, '', remark];
        return h('li', {}, line ? [lineLink(line), ': '] : '', text);
      })));
    const first = doc.variants[0].world;
    panel.push(h('h3', {}, 'What it changed'));
    if (chosen.functions.length) panel.push(h('div', {id: 'changes'}, chosen.functions.map((change, i) => functionView(change, i === 0))));
    else panel.push(h('p', {id: 'changes'}, chosen.world && chosen.world !== first ? `The IR is compared for ${first} rank${first === 1 ? '' : 's'}.` : 'Nothing.'));
    const prose = doc.passes.prose[chosen.pass];
    beside.push(h('h3', {}, 'What it does'), h('div', {id: 'prose'}, prose ? markdown(prose) : h('p', {}, 'A pass of MLIR itself.')));
  } else panel.push(h('p', {}, 'A pass shows what it changed, function by function, its remarks, and what it does.'));
  element.append(light(h('div', {className: `split pipeline${chosen ? ' chosen' : ''}`}, h('section', {'aria-label': 'Stages and passes', id: 'stages'}, stages), h('section', {'aria-label': 'Pass', id: 'panel'}, h('div', {}, panel.filter(Boolean)), beside.length ? h('div', {className: 'prose'}, beside) : null))));
  showEntry(element.querySelector('a[data-pass][aria-current]'));
  return undefined;
}
