// Panels of kind "table": AG Grid's infinite row model, whose blocks are subscriptions (collector/channel.py sorts and
// filters). Rows are known by their place, and marks by the id of the row.
"use strict";

(() => {
  const core = window.dashboard.core;
  const BLOCK_ROWS = 100;
  const BLOCKS_MAX = 3;
  const FILTER_DELAY_MS = 150;
  const ROW_HEIGHT = 30;
  const HEAD_HEIGHT = 34;
  let theme = null;

  const themeOf = (agGrid) => {
    theme = theme || agGrid.themeQuartz.withParams({
      backgroundColor: "var(--panel)", foregroundColor: "var(--text)", headerBackgroundColor: "var(--page)", headerTextColor: "var(--muted)",
      borderColor: "var(--line)", rowHoverColor: "var(--hover)", accentColor: "var(--accent)", browserColorScheme: "inherit",
      fontFamily: "inherit", fontSize: 13, cellHorizontalPadding: 10, wrapperBorder: false, wrapperBorderRadius: 0,
    });
    return theme;
  };

  class Table {
    constructor(panel) {
      this.panel = panel;
      this.options = panel.options;
      // Tables that do not fill their page have their own names in the address.
      this.prefix = panel.options.rows ? `${panel.element.id.replace(/^p-/, "")}-` : "";
      this.filter = core.query().get(`${this.prefix}filter`) || "";
      this.marks = new Set();
      this.blocks = new Map();   // first row -> block
      this.order = "";
      this.closed = false;
      this.api = null;
      this.place = core.element("div", { class: "grid" });
      if (this.options.rows) this.place.style.height = `${this.options.rows * ROW_HEIGHT + HEAD_HEIGHT + 4}px`;
      panel.body.replaceChildren(this.place);
      this.makeFilter();
      core.load("agGrid").then((agGrid) => { if (!this.closed) this.make(agGrid); }, (error) => panel.refused(error.message));
    }

    make(agGrid) {
      agGrid.ModuleRegistry.registerModules([agGrid.AllCommunityModule]);
      const query = core.query();
      const wrong = this.wrongParam(query);
      if (wrong) { this.panel.refused(wrong); return; }
      const sort = query.get(`${this.prefix}sort`) || this.options.sort;
      const desc = query.has(`${this.prefix}sort`) ? query.get(`${this.prefix}desc`) === "1" : this.options.desc;
      const columns = this.options.columns.map((column, at) => ({
        colId: column.key, headerName: column.title, headerTooltip: column.hint || undefined, width: column.width,
        minWidth: Math.min(column.width, column.flex ? 160 : 60), flex: column.flex ? 1 : undefined, sortable: column.sortable, resizable: true,
        cellClass: column.right ? "right" : "", headerClass: column.right ? "right" : "",
        sort: column.key === sort ? (desc ? "desc" : "asc") : null,
        cellRenderer: (props) => (props.data ? core.cell(props.data.cells[at]) : ""),
      }));
      if (this.options.mark) {
        columns.unshift({
          colId: "_mark", headerName: "Mark", width: 64, minWidth: 64, sortable: false, resizable: false,
          cellRenderer: (props) => this.markCell(props.data),
        });
      }
      this.api = agGrid.createGrid(this.place, {
        theme: themeOf(agGrid), columnDefs: columns, rowModelType: "infinite", cacheBlockSize: BLOCK_ROWS, maxBlocksInCache: BLOCKS_MAX,
        rowHeight: ROW_HEIGHT, headerHeight: HEAD_HEIGHT, animateRows: false, blockLoadDebounceMillis: 40, tooltipShowDelay: 500,
        // Otherwise a table below the window has no cells until it is scrolled to, and screen readers find none.
        suppressContentVisibilityAuto: true,
        suppressNoRowsOverlay: true, defaultColDef: { sortingOrder: ["asc", "desc"], suppressHeaderMenuButton: true },
        datasource: { getRows: (request) => this.request(request) },
        onCellDoubleClicked: (event) => this.open(event.data),
        onCellKeyDown: (event) => {
          if (event.event.key === "Enter") this.open(event.data);
          if (event.event.key === " " && this.options.mark && event.data) { event.event.preventDefault(); this.toggle(event.data.id); }
        },
      });
    }

    // The problem with the sort order in the address; empty if there is none.
    wrongParam(query) {
      const known = { sort: this.options.columns.filter((column) => column.sortable).map((column) => column.key), desc: ["0", "1"] };
      for (const [name, allowed] of Object.entries(known)) {
        const value = query.get(this.prefix + name);
        if (value && !allowed.includes(value)) return `${this.prefix}${name}=${value.slice(0, 100)}: expected one of ${allowed.join(", ")}`;
      }
      return "";
    }

    markCell(row) {
      if (!row) return "";
      const box = core.element("input", { type: "checkbox", tabindex: "-1", "aria-label": `Mark ${row.id}` });
      box.checked = this.marks.has(row.id);
      box.addEventListener("change", () => this.toggle(row.id));
      return box;
    }

    makeFilter() {
      const place = this.panel.element.querySelector("[data-filter]");
      if (place === null) return;
      const { id, label } = JSON.parse(place.dataset.filter);
      const input = core.element("input", { type: "search", id, placeholder: label, autocomplete: "off", spellcheck: "false", maxlength: 200 });
      input.value = this.filter;
      let timer = 0;
      input.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          this.filter = input.value;
          core.setQuery({ [`${this.prefix}filter`]: this.filter });
          this.reload();
        }, FILTER_DELAY_MS);
      });
      place.querySelector("input")?.remove();
      place.append(input);
    }

    reload() {
      // The grid does not request rows while it is hidden because nothing was found.
      this.panel.body.hidden = false;
      if (this.api) this.api.purgeInfiniteCache();
    }

    request(request) {
      const [sort] = request.sortModel;
      const order = JSON.stringify([sort, this.filter]);
      if (order !== this.order) {
        this.order = order;
        this.closeBlocks();
        const changed = sort !== undefined && (sort.colId !== this.options.sort || (sort.sort === "desc") !== this.options.desc);
        core.setQuery({
          [`${this.prefix}sort`]: changed ? sort.colId : "", [`${this.prefix}desc`]: changed && sort.sort === "desc" ? "1" : "",
        });
      }
      const from = request.startRow;
      this.closeBlock(from);
      while (this.blocks.size >= BLOCKS_MAX) this.closeBlock(this.blocks.keys().next().value);
      const more = core.tableParams[this.panel.spec.channel];
      const params = { ...this.panel.spec.params, ...(more ? more(this.panel.spec) : {}), from: String(from), count: String(request.endRow - from) };
      if (sort !== undefined) { params.sort = sort.colId; params.desc = sort.sort === "desc" ? "1" : "0"; }
      if (this.filter) params.filter = this.filter;
      const block = { state: null, error: "", answer: request };
      block.subscription = this.panel.subscribe(params, {
        frame: (frame) => this.take(block, frame),
        refused: (reason) => { this.panel.refused(reason); request.failCallback(); },
      });
      this.blocks.set(from, block);
    }

    take(block, frame) {
      const state = frame.data;
      const before = block.state;
      // A channel that starts again has no state for a moment: the rows stay.
      if (state !== null) block.state = state;
      const [first] = this.blocks.values();
      if (block === first || frame.error) this.panel.note(frame, state !== null && state.found === 0);
      if (state === null) return;
      block.error = frame.error;
      this.count(block);
      if (block.answer !== null) {
        const answer = block.answer;
        block.answer = null;
        answer.successCallback(state.rows, state.found);
        return;
      }
      if (before.found !== state.found) this.api.setRowCount(Math.max(state.found, 1), true);
      state.rows.forEach((row, number) => {
        const was = before.rows[number];
        if (was !== row && JSON.stringify(was) !== JSON.stringify(row)) this.api.getDisplayedRowAtIndex(state.from + number)?.setData(row);
      });
    }

    count({ state, error }) {
      // No data is known, which is not the same as no rows.
      if (error && state.total === 0) {
        this.panel.element.querySelector(".panel-count")?.remove();
        return;
      }
      const noun = this.options.noun;
      const place = this.panel.element.querySelector(".panel-count") || this.makeCount();
      const marked = this.marks.size ? `, ${this.marks.size} marked` : "";
      const shown = state.found === state.total ? core.count(state.total) : `${core.count(state.found)} of ${core.count(state.total)}`;
      const remark = state.remark ? `, ${state.remark}` : "";
      const text = `${shown} ${noun}${state.total === 1 ? "" : "s"}${remark}${marked}`;
      if (place.textContent !== text) place.textContent = text;
    }

    makeCount() {
      const place = core.element("span", { class: "panel-count", role: "status" });
      this.panel.element.querySelector(".panel-head h2").after(place);
      return place;
    }

    toggle(id) {
      if (this.marks.has(id)) this.marks.delete(id);
      else this.marks.add(id);
      this.showMarks();
    }

    clearMarks() {
      this.marks.clear();
      this.showMarks();
    }

    showMarks() {
      if (this.api) this.api.refreshCells({ columns: ["_mark"], force: true });
      for (const block of this.blocks.values()) if (block.state) this.count(block);
    }

    // The rows that are loaded, in the order of the table.
    rows() {
      const found = [];
      for (const first of [...this.blocks.keys()].sort((a, b) => a - b)) found.push(...(this.blocks.get(first).state?.rows || []));
      return found;
    }

    // Follows the first link of a row, unless a script of the page shows the row.
    open(row) {
      if (!row) return;
      const event = new CustomEvent("dashboard-row", { bubbles: true, cancelable: true, detail: { row, table: this } });
      if (!this.place.dispatchEvent(event)) return;
      const cell = (row?.cells || []).find((each) => each !== null && typeof each === "object" && each.href);
      if (cell !== undefined) core.go(cell.href);
    }

    closeBlock(from) {
      const block = this.blocks.get(from);
      if (block === undefined) return;
      block.subscription.close();
      this.blocks.delete(from);
    }

    redraw() {
      if (this.api) this.api.refreshCells({ force: true });
    }

    closeBlocks() {
      for (const from of [...this.blocks.keys()]) this.closeBlock(from);
    }

    close() {
      this.closed = true;
      this.closeBlocks();
      if (this.api) this.api.destroy();
      this.panel.body.replaceChildren();
    }
  }

  // Parameters that only the browser knows, by channel: functions of the panel's spec.
  core.tableParams = {};

  core.renderers.table = { create: (panel) => new Table(panel) };

  // The ids of the marked rows of the table in the panel of an element.
  core.marked = (element) => {
    const panel = core.panelOf(element);
    return panel !== undefined && panel.view instanceof Table ? [...panel.view.marks] : [];
  };
  core.clearMarks = () => {
    for (const panel of core.panels()) if (panel.view instanceof Table) panel.view.clearMarks();
  };
})();
