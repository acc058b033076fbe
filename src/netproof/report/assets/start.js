// Put the parts together, once the page is there.

if (byId("data")) {
  const rows = new Rows(JSON.parse(byId("data").textContent));
  const dialog = new RunDialog(rows);
  const open = (row) => dialog.open(row);
  const root = byId("explorer");
  root.hidden = false;
  const explorer = new Explorer(root, rows, open);
  const above = byId("above");
  if (rows.data.plots) {
    above.innerHTML = '<div class="plots"></div><p class="hint">The plots show what the filters leave. Point at a mark to see which run it is; click, or press Enter, to open it.</p>';
    const parts = [new Cactus(above.firstChild, rows, open)];
    if (rows.byKey.method.values.length > 1) parts.push(new Scatter(above.firstChild, rows, open));
    parts.forEach((part) => explorer.onChange((kept) => part.update(kept)));
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === width) return; // a phone's address bar changes the height alone
      width = innerWidth;
      parts.forEach((part) => part.update(explorer.kept));
    });
  }
  if (rows.data.gallery) {
    const gallery = new Gallery(above, rows, open);
    explorer.onChange((kept) => gallery.update(kept));
  }
  dialog.follow();
}
