// Cells of tables and lists: text, an object {t, tone, href, literal, kind}, or a time as "@ms". A name that looks like
// a time is encoded as literal.
"use strict";

(() => {
  const core = window.dashboard.core;

  core.cellText = (cell) => {
    const text = cell === null || cell === undefined ? "-" : typeof cell === "string" ? cell : cell.t;
    if (cell !== null && typeof cell === "object" && cell.literal) return text;
    return /^@[0-9]+$/.test(text) ? core.time(Number(text.slice(1))) : text;
  };

  // Functions that draw the cells of one kind.
  core.cellKinds = {};

  core.cell = (cell) => {
    if (cell !== null && typeof cell === "object" && core.cellKinds[cell.kind]) return core.cellKinds[cell.kind](cell);
    const text = core.cellText(cell);
    const options = { title: text };
    if (cell !== null && typeof cell === "object") {
      if (cell.tone) options.class = `tone-${cell.tone.toLowerCase()}`;
      if (cell.href) return core.element("a", { ...options, href: cell.href }, text);
    }
    return core.element("span", options, text);
  };

  core.renderers.list = {
    create(panel) {
      const columns = panel.options.columns;
      const head = core.element("tr", {}, ...columns.map((column) => core.element("th", { scope: "col", class: column.right ? "right" : "" }, column.title)));
      const body = core.element("tbody");
      const table = core.element("table", { class: "list" }, core.element("caption", { class: "hidden" }, panel.spec.title), core.element("thead", {}, head), body);
      panel.body.replaceChildren(core.element("div", { class: "list-scroll", tabindex: "0", role: "group", "aria-label": `${panel.spec.title}, rows` }, table));
      const drawn = [];
      const show = (state) => {
        while (body.rows.length > state.rows.length) { body.deleteRow(-1); drawn.pop(); }
        state.rows.forEach((row, number) => {
          const was = drawn[number];
          drawn[number] = row;
          if (was === row || (was && JSON.stringify(was.cells) === JSON.stringify(row.cells))) return;
          const made = core.element("tr", {}, ...row.cells.map((cell, at) => core.element("td", { class: columns[at].right ? "right" : columns[at].flex ? "flex" : "" }, core.cell(cell))));
          if (body.rows[number]) body.rows[number].replaceWith(made);
          else body.append(made);
        });
      };
      const view = core.simple(panel, show, (state) => state.rows.length === 0);
      return {
        close() { view.close(); panel.body.replaceChildren(); },
        redraw() { drawn.fill(null); view.redraw(); },
      };
    },
  };
})();
