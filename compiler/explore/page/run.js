// Runs: every number of their logs over the steps, several runs over each other.
import {color, countText, h, table} from 'dom';
import {change} from 'place';

/** The mean of `span` steps around each, of those that have a number. */
function smoothed(values, span) {
  if (span <= 1) return values;
  const half = Math.floor(span / 2);
  return values.map((value, i) => {
    if (value === null) return null;
    const near = values.slice(Math.max(0, i - half), i + half + 1).filter(each => each !== null);
    if (near.every(each => each === near[0])) return near[0]; // not the rounding of a sum, which a plot would show large
    return near.reduce((sum, each) => sum + each, 0) / near.length;
  });
}

/** Series of all runs by step: rows of [step, a value or null for each run]. */
function joined(all, span) {
  const rows = new Map();
  all.forEach((series, run) => {
    if (!series) return;
    const values = smoothed(series.values, span);
    series.steps.forEach((step, i) => {
      if (!rows.has(step)) rows.set(step, [step, ...all.map(() => null)]);
      rows.get(step)[run + 1] = values[i];
    });
  });
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

function plot(title, labels, rows, options = {}) {
  const box = h('div', {className: 'plot'}), last = rows[rows.length - 1] ?? [];
  const figure = h('figure', {'data-plot': title},
    h('figcaption', {}, `${title}${last.length ? `: ${labels.map((label, i) => `${label} ${last[i + 1] === null ? '–' : Number(last[i + 1]).toPrecision(5)}`).join(', ')} at ${options.at ?? 'step'} ${last[0]}` : ''}`), box);
  const draw = () => {
    figure.graph = new Dygraph(box, rows, {
      labels: [options.at ?? 'step', ...labels], connectSeparatedPoints: true, legend: 'follow', labelsKMB: false, animatedZooms: false,
      axisLineColor: color('--line'), gridLineColor: color('--line'), colors: labels.map((_, i) => `hsl(${(215 + 137 * i) % 360} 65% ${color('--lightness') === '38%' ? '65%' : '42%'})`),
      logscale: options.log ?? false, drawPoints: rows.length < 3, strokeWidth: 1.5, ...options.graph});
  };
  return {figure, draw};
}

/** How often a step took how long: 40 equal parts of what lies between the 1st and 99th percentile. */
function distribution(all) {
  const values = all.flatMap(series => series?.values.filter(value => value !== null) ?? []).sort((a, b) => a - b);
  if (values.length < 2) return [];
  const low = values[Math.floor(0.01 * (values.length - 1))], high = values[Math.ceil(0.99 * (values.length - 1))];
  const parts = high > low ? 40 : 1, width = (high - low) / parts || 1;
  const rows = Array.from({length: parts}, (_, i) => [low + (i + 0.5) * width, ...all.map(() => 0)]);
  all.forEach((series, run) => series?.values.forEach(value => {
    if (value === null) return;
    rows[Math.min(parts - 1, Math.max(0, Math.floor((value - low) / width)))][run + 1] += 1;
  }));
  return rows;
}

/** The share of elements of one operand that an 8-bit format cannot hold, in percent, by run and product. */
function saturationOf(runs, labels, part) {
  const found = new Map();
  runs.forEach((run, i) => run.fp8.forEach(({step, products}) => products.forEach(product => {
    if (!product[part]) return;
    const label = `${labels[i]} ${product.product}`;
    if (!found.has(label)) found.set(label, {label, all: {steps: [], values: []}});
    const {steps, values} = found.get(label).all;
    steps.push(step);
    values.push(100 * product[part].saturated);
  })));
  return [...found.values()];
}

/** Joules of a step, at the mean of those that the log has them of, and the power in these; of a run without, why. */
function energyOf(run) {
  const {steps: at = [], values = []} = run.steps.joules ?? {}, ms = new Map((run.steps.step_ms?.steps ?? []).map((step, i) => [step, run.steps.step_ms.values[i]]));
  const all = values.reduce((sum, value) => sum + value, 0), seconds = at.reduce((sum, step) => sum + (ms.get(step) ?? 0), 0) / 1e3;
  if (!values.length) return {joules: run.run.energy?.missing ? `none: ${run.run.energy.missing}` : '', watts: ''};
  return {joules: (all / values.length).toPrecision(4), watts: seconds > 0 ? (all / seconds).toPrecision(4) : ''};
}

const middle = values => [...values].sort((a, b) => a - b)[values.length >> 1];

export function showRuns(element, {doc, stage, params}) {
  if (!doc.runs.length) {
    element.append(h('p', {className: 'missing'}, 'No run was given: nanoc explore OUT.plan --run LOG.jsonl, a log of nanorun --log, shows one, and several over each other.'));
    return undefined;
  }
  const labels = doc.runs.map((run, i) => `${i + 1} ${run.file.split('/').pop()}`), span = Number(params.smooth) || 1;
  const numbers = series => (series?.values ?? []).filter(value => value !== null);
  element.append(table('Runs', ['run', 'plan', 'ranks', 'device', 'seed', 'steps', 'last loss', 'median step', 'predicted', 'joules a step', 'watts'],
    doc.runs.map((run, i) => {
      const loss = numbers(run.steps.train_loss), ms = numbers(run.steps.step_ms);
      const {joules, watts} = energyOf(run);
      const own = run.run.plan_hash === doc.hash, variant = own && doc.variants.find(each => each.world === run.run.world);
      return [labels[i], own ? 'this one' : `another, ${run.run.plan_hash}`, String(run.run.world), run.run.device ?? '', String(run.run.seed ?? ''),
        countText(run.steps.train_loss?.steps.length ?? 0), loss.length ? loss[loss.length - 1].toFixed(4) : '', ms.length ? `${middle(ms).toFixed(3)} ms` : '',
        variant ? `${(doc.variantOf(variant.world).stages[0].step / 1e6).toFixed(3)} ms` : '', joules, watts];
    }), {id: 'runs'}));
  const smooth = h('input', {type: 'number', min: 1, max: 1001, step: 2, value: String(span), id: 'smooth', onchange: () => {
    change({smooth: smooth.value});
    show(Number(smooth.value) || 1);
  }});
  const log = h('input', {type: 'checkbox', id: 'log', onchange: () => show(Number(smooth.value) || 1)});
  element.append(h('div', {className: 'tools'}, h('label', {}, 'Mean over steps ', smooth), h('label', {}, log, ' logarithmic losses'),
    h('span', {className: 'quiet'}, 'Drag over a plot to see a part of it; a double click shows all.')));
  const plots = h('div', {className: 'plots'});
  element.append(plots);
  const names = part => [...new Set(doc.runs.flatMap(run => Object.keys(run[part])))].sort();
  const show = mean => {
    plots.replaceChildren();
    const wanted = [];
    const add = (part, name, title, options) => wanted.push(plot(title, labels, joined(doc.runs.map(run => run[part][name]), mean), options));
    add('steps', 'train_loss', 'train_loss', {log: log.checked});
    for (const name of names('vals')) if (name !== 'val_tokens') add('vals', name, name, {log: log.checked && name.endsWith('loss')});
    for (const name of names('steps')) if (!['train_loss', 'total_tokens', 'tokens'].includes(name)) add('steps', name, name);
    const times = distribution(doc.runs.map(run => run.steps.step_ms));
    if (times.length) wanted.push(plot('steps by milliseconds', labels, times, {at: 'ms', graph: {stepPlot: true, fillGraph: true}}));
    for (const name of names('reports')) add('reports', name, name);
    for (const part of ['input', 'weight', 'gradient']) {
      const series = saturationOf(doc.runs, labels, part);
      if (series.length && series[0].all.steps.length > 1)
        wanted.push(plot(`saturated ${part}, %`, series.map(each => each.label), joined(series.map(each => each.all), mean)));
    }
    for (const {figure} of wanted) plots.append(figure);
    for (const {draw} of wanted) draw();
  };
  show(span);
  const saturated = doc.runs.flatMap((run, i) => run.fp8.slice(-1).flatMap(({step, products}) => products.map(product => [labels[i], String(step), product.product, product.recipe,
    ...['input', 'weight', 'gradient'].map(part => (product[part] ? `${(100 * product[part].saturated).toFixed(3)}%` : ''))])));
  if (saturated.length)
    element.append(table('Share of elements beyond the 8-bit format, by product, when it was last measured', ['run', 'step', 'product', 'recipe', 'input', 'weight', 'gradient'], saturated, {most: 60, id: 'fp8'}));
  return undefined;
}
