// Two plans compared: what differs by line and by kernel, as nanoc diff says it.
import {resourcesOf} from 'data';
import {bytesText, countText, h, table, timeText} from 'dom';
import {kernelLink, lineLink} from 'place';
import {regionView} from 'pipeline';

const change = (a, b, text) => (text(a) === text(b) ? text(a) : `${text(a)} → ${text(b)}`);
const sign = ns => (ns > 0 ? '+' : '−');
const flopsText = flops => (flops ? flops.toExponential(3) : '0');
const close = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(a, b);

function rows(all, nameOf) {
  return all.map(({name, a, b}) => {
    const part = (key, text) => (close(a[key], b[key]) ? '' : change(a[key], b[key], text));
    const difference = b.ns - a.ns;
    return [nameOf(name), close(a.ns, b.ns) ? '' : `${sign(difference)}${timeText(Math.abs(difference))}`, part('ns', timeText), part('launches', countText),
      part('bytes', bytesText), part('flops', flopsText), part('memory', bytesText)];
  });
}

export function showComparison(element, {doc}) {
  const found = doc.comparison;
  if (!found) {
    element.append(h('p', {className: 'missing'}, 'This page is of one plan: nanoc explore A.plan B.plan compares two.'));
    return undefined;
  }
  const {a, b} = found;
  element.append(h('p', {}, `A ${a.file}, ${a.hash}`), h('p', {}, `B ${b.file}, ${b.hash}`));
  if (a.hash === b.hash) {
    element.append(h('p', {id: 'equal'}, 'They are equal in every byte.'));
    return undefined;
  }
  element.append(h('ul', {id: 'parts'}, found.parts.map(([world, parts]) => h('li', {}, `on ${world} rank${world === 1 ? '' : 's'} `,
    parts.length ? `they differ in ${parts.join(', ')}` : 'they are equal'))));
  element.append(table(`A step${found.hasStages ? ' of the first stage' : ''} on ${found.world} rank${found.world === 1 ? '' : 's'} by the rates of ${found.machine}`, ['', 'A → B'], [
    ['predicted', change(a.step, b.step, timeText)], ['launches', change(a.launches, b.launches, countText)], ['moved', change(a.bytes, b.bytes, bytesText)],
    ['arena', change(a.memory, b.memory, bytesText)], ['kernels', change(a.kernels, b.kernels, countText)]], {id: 'totals'}));
  if (found.hyperparameters.length)
    element.append(table('Hyperparameters', ['name', 'A', 'B'], found.hyperparameters, {id: 'changed'}));
  const heads = ['time', 'predicted', 'launches', 'moved', 'operations', 'of buffers'];
  element.append(table('By model line', ['line', ...heads], rows(found.lines, name => lineLink(name)), {most: 40, id: 'lines'}));
  const kernels = new Map(doc.kernels.map(kernel => [kernel.name, kernel]));
  element.append(table('By kernel or call', ['kernel or call', ...heads],
    rows(found.workers, name => (kernels.has(name) ? kernelLink(kernels.get(name)) : name)), {most: 40, id: 'workers'}));
  const made = [resourcesOf(doc, a.hash), resourcesOf(doc, b.hash)];
  const both = [...made[0].keys()].filter(name => made[1].has(name) && JSON.stringify(made[0].get(name)) !== JSON.stringify(made[1].get(name)));
  if (made.every(each => each.size)) {
    const parts = [['registers', countText], ['local', bytesText], ['shared', bytesText]];
    element.append(table('Kernels of both that need other registers or memory', ['kernel', 'registers', 'spilled', 'shared memory'], both.map(name => [
      kernels.has(name) ? kernelLink(kernels.get(name)) : name, ...parts.map(([part, text]) => change(made[0].get(name)[part], made[1].get(name)[part], text))]), {most: 40, id: 'registers'}));
  } else element.append(h('p', {className: 'quiet', id: 'registers'}, 'Registers are compared where --run gives a log of each plan on a GPU.'));
  const words = {'-': 'A alone', '+': 'B alone', ' ': 'both'};
  element.append(h('h3', {}, 'Kernels'), h('div', {id: 'kernels'}, found.kernels.map(each => {
    const details = h('details', {'data-kernel': each.name}, h('summary', {}, `${words[each.sign]}: ${each.name}: ${each.what}`));
    details.addEventListener('toggle', () => {
      if (details.childElementCount > 1) return;
      details.append(...(each.regions.length ? each.regions.map(regionView) : [h('p', {className: 'quiet'}, 'Its text is the same, or not in the plans.')]));
    });
    return details;
  })));
  return undefined;
}
