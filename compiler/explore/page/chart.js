// A canvas of two axes that is moved by dragging, wheel and keys.
import {color} from 'dom';

/** What a chart is given: x and y, [from, to] of each axis; xLabel and yLabel, texts of numbers (no
 *  yLabel: the vertical axis is of pixels and stays); isUniform, both axes have one scale, down is
 *  positive, and y gives its first number only; margin and bottom, points for labels; draw(context, {x, y}); find(x, y), what stands
 *  there or undefined; hover(found); choose(found). */
export class Chart {
  constructor(canvas, options) {
    Object.assign(this, {canvas, options});
    this.left = options.yLabel ? 76 : options.margin ?? 110;
    this.bottom = options.bottom ?? 20;
    this.isFlat = !options.yLabel && !options.isUniform;
    this.range = {x: [...options.x], y: [...options.y]};
    this.full = options.x;
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(canvas);
    canvas.addEventListener('pointerdown', event => this.press(event));
    canvas.addEventListener('pointermove', event => this.move(event));
    canvas.addEventListener('pointerup', event => this.release(event));
    canvas.addEventListener('wheel', event => this.wheel(event), {passive: false});
    canvas.addEventListener('keydown', event => this.key(event));
    canvas.chart = this;
  }

  stop() { this.observer.disconnect(); }

  show(range) {
    this.range = {x: [...(range.x ?? this.range.x)], y: [...(range.y ?? this.range.y)]};
    this.request();
  }

  request() {
    if (this.isRequested) return;
    this.isRequested = true;
    requestAnimationFrame(() => this.draw());
  }

  get width() { return this.canvas.clientWidth - this.left; }
  get scale() { return this.width / (this.range.x[1] - this.range.x[0]); }
  get height() { return this.canvas.clientHeight - this.bottom; }
  toX(value) { return this.left + (value - this.range.x[0]) / (this.range.x[1] - this.range.x[0]) * this.width; }
  toY(value) {
    if (this.options.isUniform) return (value - this.range.y[0]) * this.scale;
    return this.isFlat ? value : this.height - (value - this.range.y[0]) / (this.range.y[1] - this.range.y[0]) * this.height;
  }
  fromX(pixel) { return this.range.x[0] + (pixel - this.left) / this.width * (this.range.x[1] - this.range.x[0]); }
  fromY(pixel) {
    if (this.options.isUniform) return this.range.y[0] + pixel / this.scale;
    return this.isFlat ? pixel : this.range.y[0] + (this.height - pixel) / this.height * (this.range.y[1] - this.range.y[0]);
  }

  draw() {
    this.isRequested = false;
    const {canvas} = this, scale = devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * scale), height = Math.round(canvas.clientHeight * scale);
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
    const context = canvas.getContext('2d');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = color('--back');
    context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    context.font = '11px system-ui, sans-serif';
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.width, this.height);
    context.clip();
    this.options.draw(context, this.mapping());
    context.restore();
    context.fillStyle = color('--quiet');
    const ticks = Math.max(1, Math.min(6, Math.floor(this.width / 90)));
    for (let i = 0; i <= ticks; ++i) {
      const x = this.left + i / ticks * this.width;
      context.textAlign = i === ticks ? 'right' : i ? 'center' : 'left';
      context.fillText(this.options.xLabel(this.fromX(x)), x, this.height + 14);
      context.textAlign = 'right';
      if (this.options.yLabel) {
        const y = this.height * (1 - i / ticks);
        context.fillText(this.options.yLabel(Math.max(0, this.fromY(y))), this.left - 4, Math.max(10, y));
      }
    }
    context.textAlign = 'left';
    this.options.rows?.forEach(([name, y]) => context.fillText(name, 4, y));
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
  found([x, y]) { return x < this.left || y > this.height ? undefined : this.options.find(this.fromX(x), this.fromY(y)); }

  /** toX and toY for many points: the canvas's size, which is laid out anew, is asked for once. */
  mapping() {
    const {left, height, range: {x: [x0, x1], y: [y0, y1]}} = this, xScale = this.scale, yScale = height / (y1 - y0);
    return {
      x: value => left + (value - x0) * xScale,
      y: this.options.isUniform ? value => (value - y0) * xScale : this.isFlat ? value => value : value => height - (value - y0) * yScale,
    };
  }

  pan(dx, dy) {
    const x = dx / this.width * (this.range.x[1] - this.range.x[0]);
    const y = this.options.isUniform ? -dy / this.scale : this.isFlat ? 0 : dy / this.height * (this.range.y[1] - this.range.y[0]);
    this.show({x: this.range.x.map(value => value + x), y: this.range.y.map(value => value + y)});
  }
  zoom(factor, pixel = this.left + this.width / 2, pixelY = this.height / 2, both = true) {
    const x = this.fromX(pixel), y = this.fromY(pixelY);
    this.show({x: this.range.x.map(value => x + (value - x) * factor),
      y: !this.isFlat && (both || this.options.isUniform) ? this.range.y.map(value => y + (value - y) * factor) : this.range.y});
  }

  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pressed = this.last = this.at(event);
  }
  move(event) {
    const here = this.at(event);
    if (this.last) {
      this.pan(this.last[0] - here[0], here[1] - this.last[1]);
      this.last = here;
    } else this.options.hover(this.found(here));
  }
  release(event) {
    const here = this.at(event), from = this.pressed ?? here;
    this.pressed = this.last = null;
    const found = Math.hypot(here[0] - from[0], here[1] - from[1]) < 4 ? this.found(here) : undefined;
    if (found) this.options.choose(found);
  }
  wheel(event) {
    event.preventDefault();
    const [x, y] = this.at(event);
    if (event.shiftKey) this.pan(event.deltaY, 0);
    else this.zoom(Math.exp(event.deltaY * 0.0015), x, y, !event.ctrlKey);
  }
  key(event) {
    const step = 60;
    const act = {ArrowLeft: () => this.pan(-step, 0), ArrowRight: () => this.pan(step, 0), ArrowUp: () => this.pan(0, step),
      ArrowDown: () => this.pan(0, -step), '+': () => this.zoom(0.7), '=': () => this.zoom(0.7), '-': () => this.zoom(1 / 0.7),
      0: () => this.show({x: this.options.x, y: this.options.y})}[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
