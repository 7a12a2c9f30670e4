/** The live picture: how loud it is, how much sound is in hand, and the figures. */

const SPAN_S = 20;
const BARS = 96;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A canvas's context in CSS pixels, cleared. */
function cleared(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

export class Wave {
  #canvas;
  #levels = new Array(BARS).fill(0);
  #samples = null;
  #lastS = 0;

  constructor(canvas) {
    this.#canvas = canvas;
  }

  /** Louder than silence anywhere in the picture. */
  get moving() {
    return this.#levels.some((level) => level > 0.004);
  }

  draw(player, nowS) {
    const { analyser } = player;
    if (analyser) {
      this.#samples ??= new Float32Array(analyser.fftSize);
      analyser.getFloatTimeDomainData(this.#samples);
      const level = this.#samples.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
      this.#take(level, nowS);
    }
    const { context, width, height } = cleared(this.#canvas);
    context.fillStyle = colour("--accent");
    if (calm.matches) this.#meter(context, width, height);
    else this.#bars(context, width, height);
  }

  #take(level, nowS) {
    if (nowS - this.#lastS < (calm.matches ? 0.25 : 0.04)) {
      this.#levels[BARS - 1] = Math.max(this.#levels[BARS - 1], level);
      return;
    }
    this.#lastS = nowS;
    this.#levels.push(level);
    this.#levels.shift();
  }

  #bars(context, width, height) {
    const step = width / BARS;
    const thick = Math.max(1.5, step * 0.5);
    this.#levels.forEach((level, i) => {
      const tall = Math.max(2, Math.min(1, level ** 0.7) * height);
      context.globalAlpha = 0.25 + 0.75 * (i / BARS);
      context.beginPath();
      context.roundRect(i * step, (height - tall) / 2, thick, tall, thick / 2);
      context.fill();
    });
  }

  /** Without motion: one bar, four times a second. */
  #meter(context, width, height) {
    context.fillRect(0, height / 2 - 4, Math.max(2, this.#levels.at(-1) * width), 8);
  }
}

export class LeadChart {
  #canvas;
  #points = []; // {atS, leadS, cushionS}
  #gaps = [];
  #lastS = 0;

  constructor(canvas) {
    this.#canvas = canvas;
  }

  gap(nowS) {
    this.#gaps.push(nowS);
  }

  get empty() {
    return this.#points.every(({ leadS }) => leadS === 0);
  }

  draw(leadS, cushionS, nowS) {
    if (calm.matches && nowS - this.#lastS < 0.5) return;
    this.#lastS = nowS;
    this.#points.push({ atS: nowS, leadS, cushionS });
    this.#points = this.#points.filter(({ atS }) => atS > nowS - SPAN_S - 1);
    this.#gaps = this.#gaps.filter((atS) => atS > nowS - SPAN_S);
    const { context, width, height } = cleared(this.#canvas);
    const most = Math.max(1, ...this.#points.map((point) => point.leadS)) * 1.15;
    const x = (atS) => width - ((nowS - atS) / SPAN_S) * width;
    const y = (valueS) => height - 8 - (valueS / most) * (height - 26);
    this.#scale(context, width, y, most);
    this.#area(context, x, y, height);
    this.#line(context, x, y);
    context.fillStyle = colour("--bad");
    for (const atS of this.#gaps) context.fillRect(x(atS) - 1, 10, 2, height - 18);
  }

  #scale(context, width, y, most) {
    context.fillStyle = colour("--soft");
    context.font = "12px system-ui, sans-serif";
    context.strokeStyle = colour("--line");
    for (const valueS of [0, most > 2.3 ? 2 : 1]) {
      context.beginPath();
      context.moveTo(0, y(valueS));
      context.lineTo(width, y(valueS));
      context.stroke();
      if (valueS) context.fillText(`${valueS} s`, 12, y(valueS) - 4);
    }
  }

  #area(context, x, y, height) {
    const points = this.#points;
    context.beginPath();
    points.forEach(({ atS, leadS }) => context.lineTo(x(atS), y(leadS)));
    context.strokeStyle = colour("--accent");
    context.lineWidth = 2;
    context.stroke();
    context.lineTo(x(points.at(-1).atS), height - 8);
    context.lineTo(x(points[0].atS), height - 8);
    context.globalAlpha = 0.14;
    context.fillStyle = colour("--accent");
    context.fill();
    context.globalAlpha = 1;
  }

  #line(context, x, y) {
    context.beginPath();
    this.#points.forEach(({ atS, cushionS }) => context.lineTo(x(atS), y(cushionS)));
    context.setLineDash([5, 4]);
    context.strokeStyle = colour("--soft");
    context.lineWidth = 1.5;
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
  }
}
