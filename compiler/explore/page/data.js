// The document that the page holds, and its parts as objects.

async function inflate(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).json();
}

/** A program's commands as objects; those of a kernel name it. */
function commandsOf(doc, program) {
  const text = at => (at < 0 ? '' : doc.texts[at]);
  return program.kind.map((kind, index) => ({
    index,
    kind: text(kind),
    stream: program.stream[index],
    label: text(program.label[index]),
    line: text(program.line[index]),
    worker: text(program.worker[index]),
    kernel: program.kernel[index] < 0 ? null : doc.kernels[program.kernel[index]],
    event: program.event[index],
    ns: program.ps[index] / 1000,
    bytes: program.bytes[index],
    flops: program.flops[index],
    reads: program.reads[index],
    writes: program.writes[index],
  }));
}

/** When a program has each buffer in use: from the first to the last command that touches it, or
 *  all the time. */
function lifetimes(variant, program) {
  const last = program.commands.length - 1, found = new Map();
  for (const command of program.commands)
    for (const index of [...command.reads, ...command.writes]) {
      const life = found.get(index);
      if (life) life.end = command.index;
      else found.set(index, {buffer: variant.buffers[index], begin: command.index, end: command.index});
    }
  for (const life of found.values())
    if (life.buffer.role) Object.assign(life, {begin: 0, end: Math.max(0, last)});
  return [...found.values()];
}

function prepareVariant(doc, variant) {
  const text = at => (at < 0 ? '' : doc.texts[at]), columns = variant.buffers;
  variant.buffers = columns.name.map((name, index) => ({
    index,
    name,
    at: columns.at[index],
    bytes: columns.bytes[index],
    type: text(columns.type[index]),
    line: text(columns.line[index]),
    role: text(columns.role[index]),
    isInHost: columns.at[index] >= variant.arena && columns.bytes[index] > 0,
  }));
  for (const program of variant.programs) {
    program.commands = commandsOf(doc, program);
    program.waits = program.waits.map(([wait, before, after, buffer, kind]) =>
      ({wait, before, after, buffer: variant.buffers[buffer], kind: text(kind)}));
  }
  for (const stage of variant.stages) {
    const spans = stage.spans;
    stage.path = stage.path.map(([line, ns]) => ({line: text(line), ns}));
    stage.exposedBy = stage.exposedBy.map(([what, ns]) => ({what: text(what), ns}));
    stage.spans = spans.start.map((start, index) => ({
      start,
      ns: spans.ns[index],
      stream: spans.stream[index],
      transfer: text(spans.transfer[index]),
      program: variant.programs[spans.program[index]],
      command: spans.command[index] < 0
        ? null : variant.programs[spans.program[index]].commands[spans.command[index]],
    }));
  }
}

/** The document; a number of ranks is made into objects when it is first asked for. */
export async function readDocument() {
  const doc = await inflate(document.getElementById('document').textContent.trim());
  const ready = new Set();
  for (const kernel of doc.kernels)
    kernel.lines = kernel.lines.map(line => (line < 0 ? '' : doc.texts[line])).filter(Boolean);
  doc.variantOf = world => {
    const variant = doc.variants.find(each => each.world === world) ?? doc.variants[0];
    if (!ready.has(variant)) prepareVariant(doc, variant);
    ready.add(variant);
    return variant;
  };
  return doc;
}

/** What a GPU's compiler made of the kernels of a plan, as a log of it on a GPU says: name →
 *  {registers, local, shared}, bytes of local memory a thread and of shared memory a block. */
export function resourcesOf(doc, hash) {
  const text = doc.runs.find(run => run.run.plan_hash === hash && run.run.device_facts?.kernel_resources)?.run.device_facts.kernel_resources ?? '';
  return new Map(text.split('; ').map(each => each.split(' ')).filter(each => each.length === 4)
    .map(([name, ...numbers]) => [name, Object.fromEntries(numbers.map((number, i) => [['registers', 'local', 'shared'][i], Number(number)]))]));
}

/** What a step of that stage runs: {command, program, times}. */
export function runsOf(variant, stage) {
  return stage.runs.flatMap(([index, times]) =>
    variant.programs[index].commands
      .filter(command => command.kind !== 'record' && command.kind !== 'wait')
      .map(command => ({command, program: variant.programs[index], times})));
}

/** Launches, nanoseconds, bytes and operations of a step, summed by a key; the longest first. */
export function sumBy(runs, keyOf) {
  const sums = new Map();
  for (const {command, times} of runs) {
    const key = keyOf(command);
    const sum = sums.get(key) ?? {key, launches: 0, ns: 0, bytes: 0, flops: 0};
    sum.launches += times;
    sum.ns += times * command.ns;
    sum.bytes += times * command.bytes;
    sum.flops += times * command.flops;
    sums.set(key, sum);
  }
  return [...sums.values()].sort((a, b) => b.ns - a.ns);
}

/** A program's buffers in use by command, the most bytes of them, and when that is. Buffers of the
 *  whole run that it does not touch are in use too; those in the host's memory are left out. */
export function memoryOf(variant, program) {
  const own = lifetimes(variant, program).filter(life => !life.buffer.role && !life.buffer.isInHost);
  const kept = variant.buffers.filter(buffer => buffer.role && buffer.role !== 'unused');
  const change = new Float64Array(program.commands.length + 1);
  for (const {buffer, begin, end} of own) {
    change[begin] += buffer.bytes;
    change[end + 1] -= buffer.bytes;
  }
  let bytes = 0, most = 0, moment = 0;
  const inUse = new Float64Array(program.commands.length);
  for (let i = 0; i < inUse.length; ++i) {
    bytes += change[i];
    inUse[i] = bytes;
    if (bytes > most) [most, moment] = [bytes, i];
  }
  const keptBytes = kept.reduce((sum, buffer) => sum + buffer.bytes, 0);
  const holders = own.filter(life => life.begin <= moment && moment <= life.end)
    .sort((a, b) => b.buffer.bytes - a.buffer.bytes);
  return {own, kept, inUse, most, moment, holders, keptBytes};
}
