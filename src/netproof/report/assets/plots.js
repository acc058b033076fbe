// Cactus and scatter plots of the rows that match, drawn as SVG; the point nearest to the pointer says which run it is.

const [HIGH, LEFT, RIGHT, TOP, BOTTOM] = [400, 58, 18, 14, 46];
let WIDE = 560; // of the plot that is being drawn: as wide as there is room, so that letters keep their size
const LEAST_SECONDS = 0.001;
const DASHES = ["", "9 4", "9 3 2 3", "2 3", "12 3 2 3 2 3", "14 5", "2 5", "6 2 2 2"];
const colour = (place) => `var(--c${place % 8})`;
const dash = (place) => DASHES[(place + Math.floor(place / 8)) % DASHES.length];
const SOLVED = ["unsat", "sat"];

/** A logarithmic axis from seconds to a length, with ticks at decades (and 2, 5 where these are few). */
class LogAxis {
  constructor(low, high, start, end) {
    Object.assign(this, { low: Math.log10(low), high: Math.log10(high), start, end });
  }

  place(value) {
    return this.start + ((Math.log10(value) - this.low) / (this.high - this.low)) * (this.end - this.start);
  }

  ticks() {
    const steps = this.high - this.low < 1.7 ? [1, 2, 5] : [1];
    const found = [];
    for (let power = Math.floor(this.low); power <= this.high; power++) {
      for (const step of steps) found.push(Number((step * 10 ** power).toPrecision(3)));
    }
    const inside = found.filter((value) => Math.log10(value) >= this.low - 1e-9 && Math.log10(value) <= this.high + 1e-9);
    const every = Math.ceil(inside.length / 8);
    return inside.filter((_, place) => place % every === 0);
  }
}

/** A plot in the page: its drawing, a legend, what the pointer or the arrow keys are at. */
class Plot {
  constructor(parent, name, onOpen) {
    this.figure = document.createElement("figure");
    this.figure.className = "plot";
    this.figure.innerHTML = `<figcaption><h3>${esc(name)}</h3></figcaption><div class="top"></div>
      <div class="canvas" tabindex="0" role="group" aria-label="${esc(name)}: arrow keys go from point to point, Enter opens the run"></div>
      <div class="tip" hidden></div><ul class="legend"></ul><p class="sr" role="status"></p>`;
    parent.append(this.figure);
    [this.canvas, this.tip, this.legend] = [".canvas", ".tip", ".legend"].map((kind) => this.figure.querySelector(kind));
    this.status = this.figure.querySelector(".sr");
    this.series = [];
    this.current = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(this.nearest(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("click", (event) => {
      const found = this.nearest(event);
      if (found) onOpen(found.row);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event, onOpen));
    this.canvas.addEventListener("blur", () => this.point(null));
  }

  /** Take the width that there is for this plot. */
  measure() {
    this.wide = Math.round(Math.min(720, Math.max(300, this.canvas.clientWidth || 560)));
    WIDE = this.wide;
  }

  /** Show markup, and series of points {x, y, row, words} that can be pointed at. */
  show(markup, words, series, legend) {
    this.canvas.innerHTML = `<svg viewBox="0 0 ${WIDE} ${HIGH}" role="img" aria-label="${esc(words)}">${markup}<circle class="mark" r="7" visibility="hidden"></circle></svg>`;
    this.series = series.filter((points) => points.length);
    this.legend.innerHTML = legend.map((item) => `<li>${item}</li>`).join("");
    this.point(null);
  }

  nearest(event) {
    const box = this.canvas.firstChild.getBoundingClientRect();
    const [x, y] = [((event.clientX - box.left) * this.wide) / box.width, ((event.clientY - box.top) * HIGH) / box.height];
    let [best, least] = [null, 40 ** 2];
    this.series.forEach((points, line) =>
      points.forEach((point, place) => {
        const far = (point.x - x) ** 2 + (point.y - y) ** 2;
        if (far < least) [best, least] = [{ ...point, line, place }, far];
      }),
    );
    return best;
  }

  point(found) {
    this.current = found;
    this.tip.hidden = !found;
    const mark = this.canvas.querySelector(".mark");
    if (mark) mark.setAttribute("visibility", found ? "visible" : "hidden");
    if (!found) return;
    mark.setAttribute("cx", found.x);
    mark.setAttribute("cy", found.y);
    this.tip.textContent = found.words();
    const [box, outer] = [this.canvas.firstChild.getBoundingClientRect(), this.figure.getBoundingClientRect()];
    const left = box.left - outer.left + (found.x * box.width) / this.wide;
    const room = outer.width - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(left + 12, room))}px`;
    const top = box.top - outer.top + (found.y * box.height) / HIGH;
    this.tip.style.top = `${top > this.tip.offsetHeight + 16 ? top - this.tip.offsetHeight - 12 : top + 14}px`;
  }

  key(event, onOpen) {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 0], ArrowDown: [-1, 0] }[event.key];
    if (event.key === "Enter" && this.current) onOpen(this.current.row);
    if (!step || !this.series.length) return;
    event.preventDefault();
    const from = this.current ?? { line: 0, place: -1 };
    const line = (from.line + step[0] + this.series.length) % this.series.length;
    const points = this.series[line];
    const place = Math.max(0, Math.min(points.length - 1, from.place + step[1]));
    this.point({ ...points[place], line, place });
    this.status.textContent = this.tip.textContent;
  }
}

const swatch = (place) =>
  `<svg aria-hidden="true" viewBox="0 0 34 12"><path class="curve" d="M0 6H34" fill="none" stroke-width="2.5" stroke="${colour(place)}" stroke-dasharray="${dash(place)}"></path></svg>`;

const line = (x1, y1, x2, y2, kind) => `<path class="${kind}" d="M${x1} ${y1}L${x2} ${y2}"></path>`;
const label = (x, y, text, anchor = "middle", more = "") => `<text x="${x}" y="${y}" text-anchor="${anchor}"${more}>${esc(text)}</text>`;

function secondsBelow(axis, words) {
  const foot = HIGH - BOTTOM;
  const ticks = axis.ticks().map((value) => line(axis.place(value), TOP, axis.place(value), foot, "grid") + label(axis.place(value), foot + 18, value));
  return ticks.join("") + label((LEFT + WIDE - RIGHT) / 2, HIGH - 6, words);
}

/** Find the least and the largest seconds to draw; limit: where lines end that leave something unsolved. */
function extent(times, limit) {
  const known = times.map((value) => Math.max(value, LEAST_SECONDS));
  let [low, high] = [Infinity, limit ?? 0];
  for (const value of known) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low === Infinity) low = high ? high / 100 : 0.01;
  if (high < 10 * low) high = 10 * low;
  return [low / 1.3, high * 1.15];
}

function whole(count) {
  const rough = count / 5;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step = [1, 2, 5, 10].map((times) => times * power).find((value) => value >= rough) ?? 1;
  return Array.from({ length: Math.floor(count / step) + 1 }, (_, place) => place * step);
}

class Cactus {
  constructor(parent, rows, onOpen) {
    this.rows = rows;
    this.plot = new Plot(parent, "Solved within a time", onOpen);
  }

  update(kept) {
    const { rows } = this;
    this.plot.measure();
    const { method, verdict, instance } = rows.byKey;
    const curves = new Map();
    const instances = new Set();
    for (const row of kept) {
      instances.add(instance.data[row]);
      if (!curves.has(method.data[row])) curves.set(method.data[row], []);
      if (isRight(rows, row)) curves.get(method.data[row]).push(row);
    }
    const total = instances.size;
    const time = (row) => Math.max(rows.byKey.seconds.data[row], LEAST_SECONDS);
    const all = [...curves.values()].flat().map(time);
    const limits = kept.map((row) => rows.cell("limit", row)).filter((value) => value !== null);
    const limit = [...curves.values()].some((found) => found.length < total) && limits.length ? limits.reduce((a, b) => Math.max(a, b)) : null;
    const x = new LogAxis(...extent(all, limit), LEFT, WIDE - RIGHT);
    const y = (count) => HIGH - BOTTOM - (count / Math.max(1, total * 1.04)) * (HIGH - BOTTOM - TOP);
    let markup = secondsBelow(x, "seconds for each instance");
    for (const count of whole(total)) markup += line(LEFT, y(count), WIDE - RIGHT, y(count), "grid") + label(LEFT - 8, y(count) + 4, count, "end");
    markup += line(LEFT, y(total), WIDE - RIGHT, y(total), "guide") + line(LEFT, y(0), WIDE - RIGHT, y(0), "axis");
    markup += label(14, (TOP + HIGH - BOTTOM) / 2, `solved, of ${total}`, "middle", ` transform="rotate(-90 14 ${(TOP + HIGH - BOTTOM) / 2})"`);
    const series = [];
    const legend = [];
    for (const [place, found] of [...curves].sort(([a], [b]) => a - b)) {
      found.sort((a, b) => time(a) - time(b));
      const name = method.values[place];
      const points = found.map((row, count) => ({ x: x.place(time(row)), y: y(count + 1), row, words: () => `${name}: number ${count + 1}, ${runWords(rows, row)}` }));
      if (points.length) {
        const end = limit === null ? "" : `H${Math.max(x.place(limit), points.at(-1).x).toFixed(1)}`;
        const path = points.map((p) => `H${p.x.toFixed(1)}V${p.y.toFixed(1)}`).join("");
        markup += `<path class="curve" stroke="${colour(place)}" stroke-dasharray="${dash(place)}" d="M${points[0].x.toFixed(1)} ${y(0).toFixed(1)}${path}${end}"></path>`;
      }
      series.push(points);
      legend.push(`${swatch(place)}<span>${esc(name)}: ${found.length}</span>`);
    }
    if (!all.length) markup += label((LEFT + WIDE - RIGHT) / 2, HIGH / 2, "nothing is solved");
    this.plot.show(markup, `Cactus plot: solved of ${total} instances: ${[...curves].map(([place, found]) => `${method.values[place]} ${found.length}`).join(", ")}`, series, legend);
  }
}

/** Say whether a row is an answer that nothing contradicts; netproof.campaign.summary says what does. */
function isRight(rows, row) {
  return SOLVED.includes(rows.cell("verdict", row)) && !rows.cell("wrong", row);
}

/** Say of a row what a plot's tip has: the instance, the answer, the seconds. */
function runWords(rows, row) {
  const name = ["benchmark", "model", "property"].map((key) => rows.cell(key, row)).join(" ");
  return `${name}: ${rows.cell("verdict", row)}, ${seconds(rows.cell("seconds", row))} s`;
}

const SHAPES = {
  unsat: [(x, y) => `M${x - 3.5} ${y}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0`, "var(--c0)", "unsat"],
  sat: [(x, y) => `M${x - 4.5} ${y + 3.5}h9l-4.5 -8z`, "var(--c1)", "sat"],
  "": [(x, y) => `M${x - 3.5} ${y - 3.5}l7 7m0 -7l-7 7`, "var(--soft)", "solved by neither"],
};

class Scatter {
  constructor(parent, rows, onOpen) {
    this.rows = rows;
    this.plot = new Plot(parent, "One against another", onOpen);
    const methods = rows.byKey.method.values;
    const options = (chosen) => methods.map((name, place) => `<option value="${place}"${place === chosen ? " selected" : ""}>${esc(name)}</option>`).join("");
    const top = this.plot.figure.querySelector(".top");
    top.className = "top against";
    top.innerHTML = `<label>Across<select>${options(0)}</select></label><label>Up<select>${options(1)}</select></label>`;
    this.choices = [...top.querySelectorAll("select")];
    this.choices.forEach((select) => select.addEventListener("input", () => this.draw()));
  }

  update(kept) {
    // A filter on the method or the verdict would leave no pairs: what matches names the instances that are drawn.
    const { instance, method } = this.rows.byKey;
    this.chosen = new Set(kept.map((row) => instance.data[row]));
    if (!this.of) {
      this.of = new Map();
      for (let row = 0; row < this.rows.length; row++) {
        if (!this.of.has(instance.data[row])) this.of.set(instance.data[row], {});
        this.of.get(instance.data[row])[method.data[row]] = row;
      }
    }
    this.draw();
  }

  draw() {
    const { rows } = this;
    this.plot.measure();
    const [across, up] = this.choices.map((select) => Number(select.value));
    const names = [across, up].map((place) => rows.byKey.method.values[place]);
    const time = (row) => (isRight(rows, row) ? Math.max(rows.cell("seconds", row), LEAST_SECONDS) : null);
    const pairs = [];
    for (const instance of this.chosen) {
      const [a, b] = [this.of.get(instance)[across], this.of.get(instance)[up]];
      if (a !== undefined && b !== undefined) pairs.push([a, b, time(a), time(b)]);
    }
    const known = pairs.flatMap(([, , a, b]) => [a, b]).filter((value) => value !== null);
    const [low, high] = extent(known, null);
    const unsolved = known.length < 2 * pairs.length;
    const border = unsolved ? high * 1.9 : high;
    const x = new LogAxis(low, border * 1.12, LEFT, WIDE - RIGHT);
    const y = new LogAxis(low, border * 1.12, HIGH - BOTTOM, TOP);
    this.plot.show(this.frame(x, y, low, border, names, unsolved) + this.marks(pairs, x, y, border), `Scatter plot of ${pairs.length} instances: seconds of ${names[0]} across, of ${names[1]} up`, this.points(pairs, x, y, border), this.keys(pairs));
  }

  frame(x, y, low, border, names, unsolved) {
    let markup = secondsBelow({ place: (v) => x.place(v), ticks: () => x.ticks().filter((v) => !unsolved || x.place(v) < WIDE - RIGHT - 85) }, `${names[0]}, seconds`);
    for (const value of y.ticks().filter((tick) => !unsolved || tick < border / 1.5)) markup += line(LEFT, y.place(value), WIDE - RIGHT, y.place(value), "grid") + label(LEFT - 8, y.place(value) + 4, value, "end");
    for (const times of [1, 10]) {
      const kind = times === 1 ? "axis" : "guide";
      markup += line(x.place(low * times), y.place(low), x.place(border), y.place(border / times), kind);
      if (times > 1) markup += line(x.place(low), y.place(low * times), x.place(border / times), y.place(border), kind);
    }
    markup += line(LEFT, TOP, LEFT, HIGH - BOTTOM, "axis") + line(LEFT, HIGH - BOTTOM, WIDE - RIGHT, HIGH - BOTTOM, "axis");
    if (unsolved) {
      markup += line(x.place(border), y.place(low), x.place(border), TOP, "guide") + line(LEFT, y.place(border), WIDE - RIGHT, y.place(border), "guide");
      markup += label(WIDE - RIGHT, HIGH - BOTTOM + 18, "not solved", "end") + label(LEFT + 6, y.place(border) + 16, "not solved", "start");
    }
    return markup + label(14, (TOP + HIGH - BOTTOM) / 2, `${names[1]}, seconds`, "middle", ` transform="rotate(-90 14 ${(TOP + HIGH - BOTTOM) / 2})"`);
  }

  kind([a, b, s, t]) {
    return s !== null ? this.rows.cell("verdict", a) : t !== null ? this.rows.cell("verdict", b) : "";
  }

  marks(pairs, x, y, border) {
    const paths = { unsat: "", sat: "", "": "" };
    for (const pair of pairs) {
      const [shape] = SHAPES[this.kind(pair)];
      paths[this.kind(pair)] += shape(Number(x.place(pair[2] ?? border).toFixed(1)), Number(y.place(pair[3] ?? border).toFixed(1)));
    }
    return Object.entries(paths).map(([kind, path]) => `<path d="${path}" fill="${kind ? SHAPES[kind][1] : "none"}" fill-opacity=".55" stroke="${SHAPES[kind][1]}"></path>`).join("");
  }

  points(pairs, x, y, border) {
    const found = pairs.map((pair) => ({ x: x.place(pair[2] ?? border), y: y.place(pair[3] ?? border), row: pair[0], words: () => this.words(pair) }));
    return [found.sort((a, b) => a.x - b.x)];
  }

  words([a, b]) {
    const { rows } = this;
    const said = [a, b].map((row) => `${rows.cell("method", row)} ${rows.cell("verdict", row)} ${seconds(rows.cell("seconds", row))} s`);
    return `${["benchmark", "model", "property"].map((key) => rows.cell(key, a)).join(" ")}: ${said.join(", ")}`;
  }

  keys(pairs) {
    const counts = { unsat: 0, sat: 0, "": 0 };
    pairs.forEach((pair) => counts[this.kind(pair)]++);
    const drawn = Object.entries(counts).filter(([, count]) => count);
    return drawn.map(([kind, count]) => `<svg aria-hidden="true" viewBox="0 0 34 12"><path d="${SHAPES[kind][0](17, 6)}" fill="${kind ? SHAPES[kind][1] : "none"}" stroke="${SHAPES[kind][1]}"></path></svg><span>${SHAPES[kind][2]}: ${count}</span>`);
  }
}
