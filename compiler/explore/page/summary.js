// What the plan comes to: numbers of ranks side by side, hyperparameters, kernels by time.
import {runsOf, sumBy} from 'data';
import {bar, bytesText, countText, h, shareText, table, timeText} from 'dom';
import {kernelLink, link} from 'place';

export function showSummary(element, {doc, variant, stage}) {
  element.append(h('p', {}, `${doc.file}: ${doc.model} for ${doc.target}, plan ${doc.hash}. Times are predicted by the rates of ${doc.machine}.`));
  element.append(table('A step by number of ranks',
    ['ranks', 'stage', 'step', 'tokens a second', 'computing', 'communicating', 'exposed', 'idle', 'arena a rank'],
    doc.variants.flatMap(each => each.stages.map((part, index) => [
      link('schedule', {world: each.world, stage: index}, String(each.world)), part.name || 'all', timeText(part.step),
      countText(Math.round(1e9 * part.tokens / part.step)), timeText(part.computing), timeText(part.communicating),
      timeText(part.exposed), timeText(part.idle), bytesText(each.arena)])), {id: 'worlds'}));
  const runs = runsOf(variant, stage), sums = sumBy(runs, command => command.worker);
  const all = sums.reduce((sum, each) => sum + each.ns, 0);
  const kernels = new Map(doc.kernels.map(kernel => [kernel.name, kernel]));
  element.append(table(`What a step on ${variant.world} rank${variant.world === 1 ? '' : 's'} runs`,
    ['kernel or call', 'share', '', 'predicted', 'launches', 'moved', 'operations'],
    sums.map(sum => [kernels.has(sum.key) ? kernelLink(kernels.get(sum.key)) : sum.key, shareText(sum.ns, all), bar(sum.ns / all),
      timeText(sum.ns), countText(sum.launches), bytesText(sum.bytes), sum.flops ? sum.flops.toExponential(3) : '']), {most: 30, id: 'workers'}));
  element.append(table('Hyperparameters', ['name', 'value', ''],
    doc.hyperparameters.map(([name, value, overridden]) => [name, value, overridden ? 'given with -D' : '']), {id: 'hyperparameters'}));
}
