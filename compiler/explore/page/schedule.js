// A step on streams: predicted beside measured, what waits for what, and what is critical.
import {Chart} from 'chart';
import {bytesText, color, countText, h, hueOf, shareText, table, timeText} from 'dom';
import {bufferLink, go, kernelLink, lineLink, link} from 'place';

const rowHeight = 26;

/** Rows of the chart: {name, spans: [{start, ns, text, line, program?, command?}]}, by start. */
function rowsOf(doc, variant, stage) {
  const streams = [...new Set(stage.spans.map(span => span.stream))].sort((a, b) => a - b);
  const rows = streams.map(stream => ({
    name: doc.streams[stream] ?? `stream ${stream}`,
    what: 'predicted',
    spans: stage.spans.filter(span => span.stream === stream).map(span => ({...span,
      text: span.transfer || span.command.label || span.command.worker, line: span.command?.line ?? ''})),
  }));
  if (doc.profile?.world === variant.world) {
    const keys = [...new Set(doc.profile.rows.map(row => row[0] * 100 + row[1]))].sort((a, b) => a - b);
    for (const key of keys)
      rows.push({
        name: `rank ${Math.floor(key / 100)} ${doc.streams[key % 100] ?? ''}`,
        what: 'measured',
        spans: doc.profile.rows.filter(row => row[0] * 100 + row[1] === key).map(([, , start, ns, text, program, line, kernel]) =>
          ({start, ns, text, line, kernel, programName: program})).sort((a, b) => a.start - b.start),
      });
  }
  return rows;
}

/** Where the chart has each run of a command: program and command → spans, in order. */
function placesOf(rows) {
  const places = new Map();
  rows.forEach((row, index) => row.spans.forEach(span => {
    if (!span.command) return;
    const key = `${span.program.name}[${span.command.index}]`;
    if (!places.has(key)) places.set(key, []);
    places.get(key).push({...span, row: index});
  }));
  return places;
}

const reasonText = (wait, program) => {
  const name = index => program.commands[index].worker;
  return wait.kind === 'reads'
    ? [`${name(wait.after)} reads `, bufferLink(wait.buffer, program), `, which ${name(wait.before)} writes`]
    : [`${name(wait.after)} overwrites the bytes of `, bufferLink(wait.buffer, program), `, which ${name(wait.before)} ${wait.kind.endsWith('read') ? 'reads' : 'writes'}`];
};

function commandPanel({doc, variant, stage}, program, command) {
  const buffers = list => list.map((index, i) => [i ? ', ' : '', bufferLink(variant.buffers[index], program)]);
  const waits = program.waits.filter(wait => wait.after === command.index || wait.before === command.index);
  const times = stage.runs.find(([index]) => variant.programs[index] === program)?.[1] ?? 0;
  return [h('h2', {}, `${program.name}[${command.index}] ${command.worker}`),
    h('p', {id: 'command'}, `${command.label ? `"${command.label}", ` : ''}on stream ${doc.streams[command.stream] ?? command.stream}, for `, lineLink(command.line),
      `: ${timeText(command.ns)} predicted by itself, ${bytesText(command.bytes)} moved${command.flops ? `, ${command.flops.toExponential(3)} operations` : ''}; ` +
      (times ? `${countText(times)} time${times === 1 ? '' : 's'} a step.` : 'not a part of a step.')),
    command.kernel ? h('p', {}, 'Kernel ', kernelLink(command.kernel), `: ${command.kernel.summary}`) : null,
    h('p', {}, 'Reads ', command.reads.length ? buffers(command.reads) : 'nothing', '; writes ', command.writes.length ? buffers(command.writes) : 'nothing', '.'),
    waits.length ? h('ul', {id: 'reasons'}, waits.map(wait => h('li', {}, reasonText(wait, program)))) : null].filter(Boolean);
}

export function showSchedule(element, context) {
  const {doc, variant, stage, params} = context;
  const rows = rowsOf(doc, variant, stage), places = placesOf(rows);
  const program = variant.programs.find(each => each.name === params.program);
  const command = program?.commands[Number(params.command)];
  const chosen = command ? places.get(`${program.name}[${command.index}]`) ?? [] : [];
  const end = Math.max(1, ...rows.flatMap(row => row.spans.length ? [row.spans[row.spans.length - 1]] : []).map(span => span.start + span.ns), stage.step);

  element.append(h('p', {id: 'step'}, `A step on ${variant.world} rank${variant.world === 1 ? '' : 's'} is predicted to take ${timeText(stage.step)}: ` +
    `${timeText(stage.computing)} computing, ${timeText(stage.exposed)} of ${timeText(stage.communicating)} communication exposed (${shareText(stage.exposed, stage.step)}), ` +
    `${timeText(stage.idle)} idle.`));
  if (doc.profile)
    element.append(h('p', {id: 'profile'}, doc.profile.world === variant.world
      ? `Measured below: step ${doc.profile.step} on ${doc.profile.device}.`
      : `The profile is of ${doc.profile.world} rank${doc.profile.world === 1 ? '' : 's'}: choose that number of ranks to see it.`));
  const hover = h('p', {className: 'quiet', id: 'hover', 'aria-live': 'polite'}, 'Drag or use the arrow keys to move, the wheel or + and − to change the scale, 0 to see all.');
  const top = 14, heightOf = Math.max(3, rows.length + (rows.some(row => row.what === 'measured') ? 1 : 0)) * rowHeight + top + 24;
  const canvas = h('canvas', {tabindex: 0, role: 'img', style: `height: ${heightOf}px`, id: 'schedule', 'aria-label': 'Commands of a step by stream; the tables below say the same'});
  const firstMeasured = rows.findIndex(row => row.what === 'measured');
  const rowY = index => top + index * rowHeight + (firstMeasured >= 0 && index >= firstMeasured ? rowHeight : 0);
  const focus = chosen[0] ? [chosen[0].start - 6 * chosen[0].ns, chosen[0].start + 7 * chosen[0].ns] : [0, end];
  const arrows = variant.programs.flatMap(each => each.waits.flatMap(wait => {
    const from = places.get(`${each.name}[${wait.before}]`) ?? [], to = places.get(`${each.name}[${wait.after}]`) ?? [];
    return from.length === to.length ? from.map((span, i) => [span, to[i]]) : [];
  }));
  const chart = new Chart(canvas, {
    x: [0, end], y: [0, 1], margin: 120,
    xLabel: x => timeText(Math.max(0, x)),
    rows: [...rows.map((row, i) => [row.name, rowY(i) + 16]), ...(firstMeasured >= 0 ? [['predicted ↑  measured ↓', rowY(firstMeasured) - 8]] : [])],
    draw: (context, {x}) => {
      const width = canvas.clientWidth;
      rows.forEach((row, index) => {
        const y = rowY(index);
        let drawn = -1;
        for (const span of row.spans) {
          const left = x(span.start), right = x(span.start + span.ns);
          if (right < 0 || right < drawn) continue;
          if (left > width) break;
          const isChosen = command && span.command === command && span.program === program;
          context.fillStyle = isChosen ? color('--accent') : `hsl(${hueOf(span.line || span.text)} ${saturation} ${lightness})`;
          context.fillRect(left, y, Math.max(0.7, right - left - (right - left > 3 ? 0.5 : 0)), rowHeight - 6);
          drawn = left + 0.7;
          if (right - left > 46) {
            context.fillStyle = color(isChosen ? '--back' : '--text');
            context.fillText(span.text.slice(0, Math.floor((right - left) / 6.5)), Math.max(left, chart.left) + 3, y + 14);
          }
        }
      });
      const visible = arrows.filter(([from, to]) => x(to.start) > 0 && x(from.start + from.ns) < width);
      if (visible.length > 300) return;
      context.strokeStyle = color('--quiet');
      for (const [from, to] of visible) {
        const x1 = x(from.start + from.ns), y1 = rowY(from.row) + 10, x2 = x(to.start), y2 = rowY(to.row) + 10, angle = Math.atan2(y2 - y1, x2 - x1);
        context.beginPath();
        context.moveTo(x1, y1);
        context.lineTo(x2, y2);
        for (const turn of [2.7, -2.7]) { // the arrow's head
          context.moveTo(x2, y2);
          context.lineTo(x2 + 6 * Math.cos(angle + turn), y2 + 6 * Math.sin(angle + turn));
        }
        context.stroke();
      }
    },
    find: (x, y) => {
      const row = rows.find((_, index) => rowY(index) <= y && y < rowY(index) + rowHeight - 6);
      return row?.spans.find(span => span.start <= x && x < span.start + span.ns);
    },
    hover: span => {
      hover.textContent = span ? `${span.text}, ${timeText(span.ns)} from ${timeText(Math.max(0, span.start))}, ${span.program?.name ?? span.programName ?? ''}, ${span.line || 'no line'}` : '';
    },
    choose: span => {
      if (span.command) go('schedule', {program: span.program.name, command: span.command.index});
      else if (span.line) go('model', {line: span.line});
    },
  });
  const saturation = color('--saturation'), lightness = color('--lightness');
  chart.show({x: focus});
  element.append(canvas, hover, h('section', {id: 'panel', 'aria-label': 'Command'}, command ? commandPanel(context, program, command) : []));
  const sorted = list => [...list].sort((a, b) => b.ns - a.ns);
  element.append(
    table('Critical path by model line', ['line', 'of a step', ''], sorted(stage.path).map(part => [lineLink(part.line), timeText(part.ns), shareText(part.ns, stage.step)]), {most: 15, id: 'path'}));
  if (stage.exposedBy.length)
    element.append(table('Exposed communication by collective', ['collective', 'exposed', ''], sorted(stage.exposedBy).map(part => [part.what, timeText(part.ns), shareText(part.ns, stage.step)]), {most: 15, id: 'exposed'}));
  const waits = stage.runs.flatMap(([index]) => variant.programs[index].waits.map(wait => [variant.programs[index], wait]));
  const unexplained = stage.runs.reduce((sum, [index]) => {
    const each = variant.programs[index];
    return sum + each.commands.filter(one => one.kind === 'wait').length - each.waits.length;
  }, 0);
  element.append(table(`Waits between streams, and why${unexplained ? `; ${unexplained} more keep what commands far from them do in order` : ''}`,
    ['program', 'command', 'waits for', 'reason'], waits.map(([each, wait]) => {
      const place = at => link('schedule', {program: each.name, command: at}, `${at} ${each.commands[at].worker}`);
      return [each.name, place(wait.after), place(wait.before), reasonText(wait, each)];
    }), {most: 30, id: 'waits'}));
  return () => chart.stop();
}
