// Rules that a page must keep for everybody to read it, as axe and WCAG 2.2 AA state them; returns what breaks one.
(() => {
  const found = [];
  const fail = (rule, element, more = "") => {
    const where = element ? `<${element.tagName.toLowerCase()} ${element.id || element.className?.baseVal || element.className || ""}>` : "";
    found.push(`${rule}: ${where} ${more || element?.textContent?.trim().slice(0, 40) || ""}`);
  };
  const all = (selector) => [...document.querySelectorAll(selector)];
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    return box.width > 0 && box.height > 0 && style.visibility !== "hidden" && style.display !== "none" && !element.closest(".sr");
  };

  // The document.
  if (!document.documentElement.lang) fail("html-has-lang");
  if (!document.title.trim()) fail("document-title");
  if (all("main").length !== 1) fail("landmark-one-main");
  if (!document.querySelector('meta[name=viewport]')?.content.includes("width=device-width")) fail("viewport");
  if (document.documentElement.scrollWidth > innerWidth + 1) fail("reflow", null, `page is ${document.documentElement.scrollWidth} wide, window ${innerWidth}`);
  const ids = all("[id]").map((element) => element.id);
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) fail("duplicate-id", null, id);

  // Headings: one h1, none skipped, none empty.
  const headings = all("h1,h2,h3,h4,h5,h6").filter((h) => !h.closest("dialog"));
  if (headings.filter((h) => h.tagName === "H1").length !== 1) fail("page-has-heading-one");
  headings.reduce((before, heading) => {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) fail("heading-order", heading);
    if (!heading.textContent.trim()) fail("empty-heading", heading);
    return level;
  }, 0);

  // Names of what can be read or used.
  const nameOf = (element) => {
    const by = element.getAttribute("aria-labelledby");
    const named = (id) => ((of) => of?.getAttribute("aria-label") ?? of?.textContent ?? "")(document.getElementById(id));
    if (by) return by.split(/\s+/).map(named).join(" ").trim();
    const label = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? "";
    return (label || element.textContent || element.getAttribute("alt") || element.getAttribute("title") || "").trim();
  };
  for (const image of all("img")) {
    if (!image.hasAttribute("alt")) fail("image-alt", image);
    if (image.alt === "" && !image.closest("button, a")) fail("image-alt", image, "empty, and nothing else says what it is");
  }
  for (const drawing of all("svg")) {
    if (drawing.getAttribute("aria-hidden") === "true") continue;
    if (drawing.closest("button, a[href], label")) continue; // its icon; that it has a name is asked below
    if (drawing.getAttribute("role") !== "img" || !nameOf(drawing)) fail("svg-img-alt", drawing);
  }
  for (const control of all("button, a[href], summary, [role=button]").filter(seen)) if (!nameOf(control)) fail("button-name", control);
  for (const field of all("input, select, textarea")) {
    if (getComputedStyle(field).display === "none") continue;
    if (!field.labels?.length && !field.getAttribute("aria-label")) fail("label", field);
  }
  for (const region of all("[role=region], [role=group], nav, dialog, section")) if (!nameOf(region)) fail("region-name", region);
  for (const element of all("[aria-labelledby], [aria-describedby]")) {
    const names = `${element.getAttribute("aria-labelledby") ?? ""} ${element.getAttribute("aria-describedby") ?? ""}`;
    for (const id of names.split(/\s+/).filter(Boolean)) if (!document.getElementById(id)) fail("aria-valid-attr-value", element, id);
  }
  const roles = ["alert", "status", "region", "group", "img", "search", "button", "dialog", "presentation"];
  for (const element of all("[role]")) if (!roles.includes(element.getAttribute("role"))) fail("aria-roles", element);
  for (const element of all("a[href^='#']")) {
    if (!document.getElementById(element.getAttribute("href").slice(1))) fail("link-target", element);
  }

  // Tables and lists.
  for (const table of all("table")) {
    if (!seen(table)) continue; // of code by lines, and of what is folded
    const heads = [...table.querySelectorAll("thead th")];
    const rows = [...(table.tBodies[0]?.rows ?? [])];
    const byRow = rows.length > 0 && rows.every((row) => row.cells[0].scope === "row" || row.cells.length === 1);
    if (!heads.length && !byRow) fail("table-headers", table);
    for (const head of heads) {
      if (head.getAttribute("scope") !== "col" || !head.textContent.trim()) fail("th-scope", head);
      const sort = head.getAttribute("aria-sort");
      if (sort !== null && !["ascending", "descending"].includes(sort)) fail("aria-sort", head);
    }
    const width = (row) => [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
    for (const row of rows) {
      const [cells, columns] = [row, table.tHead?.rows[0] ?? rows[0]].map(width);
      if (cells !== columns) fail("td-headers", row, `${cells} cells under ${columns} headings`);
    }
    if (!table.caption && !table.closest("[role=region]")) fail("table-name", table);
  }
  for (const list of all("ul, ol")) if ([...list.children].some((item) => item.tagName !== "LI")) fail("list", list);
  for (const list of all("dl")) if (![...list.children].every((item) => ["DIV", "DT", "DD"].includes(item.tagName))) fail("dl", list);

  // What scrolls can be scrolled by the keyboard, and what is pressed is large enough (WCAG 2.5.8).
  for (const element of all("body *")) {
    const style = getComputedStyle(element);
    const scrolls = ["auto", "scroll"].includes(style.overflowX) && element.scrollWidth > element.clientWidth + 1;
    if (scrolls && element.tabIndex < 0 && element.tagName !== "DIALOG") fail("scrollable-region-focusable", element);
  }
  for (const control of all("button, input, select, summary").filter(seen)) {
    const box = control.getBoundingClientRect();
    if (box.height < 24 || box.width < 10) fail("target-size", control, `${box.width} x ${box.height} ${control.textContent.slice(0, 20)}`);
  }

  // Contrast of all text that is seen: 4.5, or 3 where it is large.
  const numbers = (colour) => (/^rgba?\(([^)]+)\)/.exec(colour)?.[1] ?? "0,0,0,0").split(/[\s,/]+/).map(Number);
  const over = (top, bottom) => {
    const alpha = top[3] ?? 1;
    return [0, 1, 2].map((i) => alpha * top[i] + (1 - alpha) * bottom[i]);
  };
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(numbers(getComputedStyle(at).backgroundColor));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return layers.reverse().reduce((below, layer) => over(layer, below), dark ? [18, 18, 18] : [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const looked = new Set();
  let texts = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || looked.has(element) || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName) || !seen(element)) continue;
    looked.add(element);
    texts++;
    const style = getComputedStyle(element);
    const behind = ground(element);
    const ink = over(numbers(element.closest("svg") ? style.fill : style.color), behind);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio(ink, behind) < (large ? 3 : 4.5)) fail("color-contrast", element, `${ratio(ink, behind).toFixed(2)} ${element.textContent.slice(0, 30)}`);
  }
  if (texts < 10) fail("texts", null, `only ${texts} texts were seen`);
  // Lines of plots, edges of fields: 3 (WCAG 1.4.11).
  for (const part of all(".curve, .axis, .mark").filter((element) => getComputedStyle(element).stroke !== "none")) {
    const behind = ground(part.closest("figure") ?? document.body);
    if (ratio(numbers(getComputedStyle(part).stroke).slice(0, 3), behind) < 3) fail("non-text-contrast", part);
  }
  for (const field of all("input, select").filter(seen)) {
    if (ratio(numbers(getComputedStyle(field).borderTopColor).slice(0, 3), ground(field.parentElement)) < 3) fail("non-text-contrast", field);
  }
  return found;
})()
