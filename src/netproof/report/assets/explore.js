// The part of a report that can be searched, filtered and sorted: rows come from the JSON in the page, a page at a time.

const PAGE = 100;

/** The rows, kept by column; a column with `values` holds places in that list. */
class Rows {
  constructor(data) {
    this.data = data;
    this.columns = data.columns;
    this.byKey = Object.fromEntries(data.columns.map((column) => [column.key, column]));
    this.length = data.columns.length ? data.columns[0].data.length : 0;
  }

  cell(key, row) {
    const column = this.byKey[key];
    if (!column) return null;
    const held = column.data[row];
    return column.values && held !== null ? column.values[held] : held;
  }

  /** All words of a row in lower case, for searching; made once. */
  words(row) {
    this.texts ??= new Array(this.length);
    if (this.texts[row] === undefined) {
      const named = this.columns.filter((column) => column.search);
      this.texts[row] = named.map((column) => this.cell(column.key, row) ?? "").join(" ").toLowerCase();
    }
    return this.texts[row];
  }

  /** The rank of every value of a column in sorted order, so that rows are compared as numbers. */
  ranks(key) {
    const column = this.byKey[key];
    if (!column.values) return column.data;
    if (!column.ranks) {
      const order = column.values.map((_, place) => place);
      const plain = (text) => String(text ?? "");
      order.sort((a, b) => plain(column.values[a]).localeCompare(plain(column.values[b]), "en", { numeric: true }));
      const rank = new Array(order.length);
      order.forEach((place, at) => (rank[place] = at));
      column.ranks = column.data.map((place) => (place === null || column.values[place] === "" ? null : rank[place]));
    }
    return column.ranks;
  }
}

const badge = (verdict) => `<span class="verdict ${esc(verdict)}">${esc(verdict)}</span>`;

/** What is shown of a cell, as markup. */
function shownCell(rows, column, row) {
  const value = rows.cell(column.key, row);
  if (column.kind === "verdict") return badge(value) + (rows.cell("wrong", row) ? ' <span class="wrong">wrong</span>' : "");
  if (column.kind === "seconds") return seconds(value);
  if (column.kind === "number") return figure(value);
  return column.kind === "file" ? esc(value ?? "") : breakable(value ?? "");
}

/** One line per row: the columns that are not hidden. */
class RunView {
  constructor(rows) {
    this.rows = rows;
    this.columns = rows.columns.filter((column) => !column.hidden);
    this.link = this.columns.findIndex((column) => column.link);
  }

  headings() {
    return this.columns.map((c) => ({ title: c.title, name: c.kind === "text" || c.kind === "verdict", level: c.level ?? 1 }));
  }

  items(kept) {
    return kept;
  }

  sort(items, place, sign) {
    const ranks = this.rows.ranks(this.columns[place].key);
    const known = items.filter((row) => ranks[row] !== null);
    const rest = items.filter((row) => ranks[row] === null);
    known.sort((a, b) => sign * (ranks[a] - ranks[b]) || a - b);
    return known.concat(rest.sort((a, b) => a - b));
  }

  cells(row) {
    return this.columns.map((column, place) => {
      const text = shownCell(this.rows, column, row);
      return place === this.link ? `<button type="button" class="open-run" data-row="${row}">${text}</button>` : text;
    });
  }

  row(item) {
    return item;
  }
}

/** One line per instance, a column for every method. */
class SideView {
  constructor(rows) {
    this.rows = rows;
    this.methods = rows.byKey.method.values;
  }

  headings() {
    const names = ["benchmark", "instance", "known"].map((title, i) => ({ title, name: true, level: [2, 1, 3][i] }));
    return [...names, ...this.methods.map((title) => ({ title, name: true, level: 1 }))];
  }

  items(kept) {
    const of = new Map();
    const { instance, method } = this.rows.byKey;
    for (const row of kept) {
      const key = instance.data[row];
      if (!of.has(key)) of.set(key, { first: row, runs: {} });
      of.get(key).runs[method.data[row]] = row;
    }
    return [...of.values()];
  }

  value(item, place) {
    if (place === 0) return this.rows.cell("benchmark", item.first);
    if (place === 1) return this.name(item.first).toLowerCase();
    if (place === 2) return this.rows.cell("known", item.first);
    const row = item.runs[place - 3];
    if (row === undefined) return null;
    const solved = ["sat", "unsat"].includes(this.rows.cell("verdict", row));
    return this.rows.cell("seconds", row) + (solved ? 0 : 1e9);
  }

  name(row) {
    return `${this.rows.cell("model", row)} ${this.rows.cell("property", row)}`;
  }

  sort(items, place, sign) {
    const keyed = items.map((item) => [this.value(item, place), item]);
    keyed.sort(([a, x], [b, y]) => compare(a, b, sign) || x.first - y.first);
    return keyed.map(([, item]) => item);
  }

  cells(item) {
    const named = [this.rows.cell("benchmark", item.first), this.name(item.first), this.rows.cell("known", item.first) ?? ""];
    const runs = this.methods.map((_, place) => {
      const row = item.runs[place];
      if (row === undefined) return "";
      const took = seconds(this.rows.cell("seconds", row));
      const text = `${badge(this.rows.cell("verdict", row))} ${took} s`;
      const wrong = this.rows.cell("wrong", row) ? ' <span class="wrong">wrong</span>' : "";
      return `<button type="button" class="open-run" data-row="${row}">${text}</button>${wrong}`;
    });
    return [...named.map(breakable), ...runs];
  }

  row(item) {
    return item.first;
  }
}

/** The filters, the table and what follows them; `onChange` is called with the rows that are left. */
class Explorer {
  constructor(root, rows, onOpen) {
    this.rows = rows;
    this.root = root;
    this.onOpen = onOpen;
    this.listeners = [];
    this.views = { runs: new RunView(rows), ...(rows.data.side ? { side: new SideView(rows) } : {}) };
    this.view = this.views.runs;
    this.sorted = null;
    this.at = 0;
    this.build();
    this.filter();
  }

  build() {
    const facets = this.rows.data.facets.map(({ key, title }) => {
      const values = this.rows.byKey[key].values;
      const options = values.map((value, place) => `<option value="${place}">${esc(value)}</option>`).join("");
      return `<label>${esc(title)}<select data-facet="${esc(key)}"><option value="">all</option>${options}</select></label>`;
    });
    const side = this.views.side
      ? '<label>Rows<select id="view"><option value="runs">one per run</option><option value="side">one per instance</option></select></label>'
      : "";
    this.root.innerHTML = `
      <form class="filters" role="search" aria-label="Filter the rows">
        <label>Search<input type="search" id="search" autocomplete="off" placeholder="words, in any order"></label>
        ${facets.join("")}${side}<button type="reset" class="plain">Clear</button>
      </form>
      <p class="count" id="count" role="status"></p>
      <div id="above"></div>
      <div class="scroll" tabindex="0" role="region" aria-label="Rows of the table">
        <table class="explored"><caption class="sr">${esc(this.rows.data.caption)}</caption>
        <thead><tr></tr></thead><tbody></tbody></table></div>
      <div class="pager"><button type="button" class="plain" id="back">Back</button>
        <span id="where"></span><button type="button" class="plain" id="on">Next</button></div>`;
    this.form = this.root.querySelector("form");
    this.head = this.root.querySelector("thead tr");
    this.body = this.root.querySelector("tbody");
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", (event) => {
      if (event.target.id === "view") this.look(event.target.value);
      else this.filter();
    });
    this.form.addEventListener("reset", () => setTimeout(() => this.look("runs")));
    this.body.addEventListener("click", (event) => {
      const line = event.target.closest("tr");
      const button = event.target.closest("[data-row]");
      if (button || line) this.onOpen(Number((button ?? line).dataset.row));
    });
    byId("back").addEventListener("click", () => this.turn(-1));
    byId("on").addEventListener("click", () => this.turn(1));
    this.drawHead();
  }

  look(name) {
    this.view = this.views[name];
    this.sorted = null;
    this.drawHead();
    this.filter();
  }

  drawHead() {
    this.head.innerHTML = this.view
      .headings()
      .map(({ title, name, level }) => {
        const classes = `${name ? "name" : ""} ${level > 1 ? `p${level}` : ""}`.trim();
        return `<th scope="col"${classes ? ` class="${classes}"` : ""}><button type="button">${esc(title)}</button></th>`;
      })
      .join("");
    [...this.head.children].forEach((heading, place) =>
      heading.firstChild.addEventListener("click", () => this.sortBy(place)),
    );
  }

  sortBy(place) {
    const again = this.sorted && this.sorted.place === place && this.sorted.sign > 0;
    this.sorted = { place, sign: again ? -1 : 1 };
    this.items = this.view.sort(this.items, place, this.sorted.sign);
    markSorted([...this.head.children], place, this.sorted.sign);
    this.at = 0;
    this.drawBody();
  }

  /** Find the rows that every filter lets through, in their present order. */
  filter() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...this.form.querySelectorAll("[data-facet]")].filter((select) => select.value !== "");
    const wanted = chosen.map((select) => [this.rows.byKey[select.dataset.facet].data, Number(select.value)]);
    const kept = [];
    for (let row = 0; row < this.rows.length; row++) {
      if (!wanted.every(([data, value]) => data[row] === value)) continue;
      if (words.length) {
        const text = this.rows.words(row);
        if (!words.every((word) => text.includes(word))) continue;
      }
      kept.push(row);
    }
    this.kept = kept;
    this.items = this.view.items([...kept]);
    if (this.sorted) this.items = this.view.sort(this.items, this.sorted.place, this.sorted.sign);
    this.at = 0;
    const noun = this.rows.data.noun;
    byId("count").textContent = `${kept.length} of ${this.rows.length} ${noun} match`;
    this.drawBody();
    this.listeners.forEach((tell) => tell(kept));
  }

  onChange(tell) {
    this.listeners.push(tell);
    tell(this.kept);
  }

  turn(by) {
    this.at += by * PAGE;
    this.drawBody();
  }

  drawBody() {
    const headings = this.view.headings();
    const some = this.items.slice(this.at, this.at + PAGE);
    const lines = some.map((item) => {
      const cells = this.view.cells(item).map((text, place) => {
        const { name, level } = headings[place];
        const classes = `${name ? "name" : ""} ${level > 1 ? `p${level}` : ""}`.trim();
        return `<td${classes ? ` class="${classes}"` : ""}>${text}</td>`;
      });
      return `<tr class="live" data-row="${this.view.row(item)}">${cells.join("")}</tr>`;
    });
    this.body.innerHTML = lines.join("") || `<tr><td class="name" colspan="${headings.length}">Nothing matches.</td></tr>`;
    const last = Math.min(this.at + PAGE, this.items.length);
    byId("where").textContent = this.items.length ? `${this.at + 1} to ${last} of ${this.items.length}` : "";
    byId("back").disabled = this.at === 0;
    byId("on").disabled = last >= this.items.length;
  }
}

// --- one run ---

/** Quote a word for a shell where it needs that. */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** The command that asks the same question again. */
function commandOf(rows, row) {
  if (rows.data.again) return `${rows.data.again} ${rows.cell("image", row)}`;
  const tail = rows.cell("tail", row);
  if (!tail) return "";
  const at = (path) => (path.startsWith("/") || !rows.cell("folder", row) ? path : `${rows.cell("folder", row)}/${path}`);
  const [onnx, vnnlib] = [rows.cell("onnx", row), rows.cell("vnnlib", row)];
  const named = /^\w+=\S+( \w+=\S+)*$/.test(onnx) ? onnx.split(" ").map((pair) => pair.split(/=(.*)/s)) : null;
  const models = named ? named.map(([name, path]) => `--network ${quoted(`${name}=${at(path)}`)}`) : [quoted(at(onnx))];
  return `netproof verify ${[...models, quoted(at(vnnlib))].join(" ")} ${tail}`;
}

/** Bars for the seconds of each phase. */
function phasesOf(rows, row) {
  const held = rows.cell("phases", row);
  if (!held) return "";
  const spent = held.map((value, place) => [rows.data.phases[place], value]).filter(([, value]) => value > 0);
  const most = Math.max(...spent.map(([, value]) => value));
  if (!spent.length) return "";
  const bars = spent.map(
    ([name, value]) => `<span>${esc(name)}</span><i style="width:${(100 * value) / most}%"></i><span>${seconds(value)} s</span>`,
  );
  return `<h3>Seconds by phase</h3><div class="phases">${bars.join("")}</div>`;
}

class RunDialog {
  constructor(rows) {
    this.rows = rows;
    this.dialog = document.createElement("dialog");
    this.dialog.setAttribute("aria-label", "One row");
    document.body.append(this.dialog);
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    this.dialog.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
    addEventListener("hashchange", () => this.follow());
  }

  /** Open the run that the address names. */
  follow() {
    const named = /^#row-(\d+)$/.exec(location.hash);
    if (named && Number(named[1]) < this.rows.length) this.open(Number(named[1]));
  }

  open(row) {
    const { rows } = this;
    const title = rows.data.title.map((key) => rows.cell(key, row)).filter(Boolean).join(" · ");
    const facts = rows.columns
      .filter((column) => column.title && !["phases", "text-block", "picture"].includes(column.kind))
      .map((column) => [column, shownCell(rows, column, row)])
      .filter(([, text]) => text !== "")
      .map(([column, text]) => {
        const long = String(rows.cell(column.key, row)).length > 60 && column.kind === "text";
        const link = column.kind === "file" ? `<a href="${text}">${text}</a>` : text;
        return `<div${long || column.kind === "file" ? ' class="long"' : ""}><dt>${esc(column.title)}</dt><dd>${link}</dd></div>`;
      });
    const command = commandOf(rows, row);
    const picture = rows.data.pictures?.[rows.cell("picture", row) ?? -1];
    const words = `counterexample of ${title}`;
    const text = rows.cell("witness", row);
    this.dialog.innerHTML = `<h2 id="run-title">${esc(title)}</h2><dl class="details">${facts.join("")}</dl>
      ${picture ? `<h3>${esc(rows.data.one)}</h3><img src="${picture.source}" alt="${esc(words)}">` : ""}
      ${text ? `<h3>Counterexample</h3><pre tabindex="0" aria-label="Counterexample">${esc(text)}</pre>` : ""}
      ${phasesOf(rows, row)}
      ${command ? `<h3>Run it again</h3><pre id="again" tabindex="0" aria-label="Command">${esc(command)}</pre>` : ""}
      <div class="buttons">${command ? '<button type="button" class="plain" id="copy">Copy the command</button>' : ""}
      <button type="button" class="plain" id="close" autofocus>Close</button></div>`;
    byId("close").addEventListener("click", () => this.dialog.close());
    byId("copy")?.addEventListener("click", () => {
      getSelection().selectAllChildren(byId("again"));
      navigator.clipboard?.writeText(command).then(() => (byId("copy").textContent = "Copied"), () => undefined);
    });
    this.dialog.setAttribute("aria-labelledby", "run-title");
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.scrollTop = 0;
    history.replaceState(null, "", `#row-${row}`);
  }
}

// --- pictures of what failed ---

/** The first pictures among the rows that match, as buttons that open their row. */
class Gallery {
  constructor(root, rows, onOpen) {
    this.rows = rows;
    this.shown = 12;
    root.insertAdjacentHTML("beforeend", '<div><h3 id="pictures-title"></h3><ul class="gallery" aria-labelledby="pictures-title"></ul><button type="button" class="plain" id="more">Show more</button></div>');
    this.list = root.querySelector(".gallery");
    this.list.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) onOpen(Number(button.dataset.row));
    });
    byId("more").addEventListener("click", () => {
      this.shown += 24;
      this.draw();
    });
  }

  update(kept) {
    this.drawn = kept.filter((row) => this.rows.cell("picture", row) !== null);
    this.shown = 12;
    this.draw();
  }

  draw() {
    const { rows } = this;
    const some = this.drawn.slice(0, this.shown);
    byId("pictures-title").textContent = `${rows.data.drawn}: ${this.drawn.length} pictures`;
    this.list.innerHTML = some
      .map((row) => {
        const words = rows.data.title.map((key) => rows.cell(key, row)).join(" · ");
        const picture = rows.data.pictures[rows.cell("picture", row)];
        return `<li><button type="button" data-row="${row}"><img src="${picture.source}" alt=""><span>${esc(words)} ${badge(rows.cell("verdict", row))}</span></button></li>`;
      })
      .join("");
    byId("more").hidden = this.shown >= this.drawn.length;
  }
}
