// The palette (ctrl+k): finds pages, topics, groups, clusters and the actions of this page. Also the help on keys. A
// combobox with a list of options, as the ARIA Authoring Practices describe it: the focus stays in the input.
"use strict";

(() => {
  const core = window.dashboard.core;
  const ASK_DELAY_MS = 120;
  const KEYS = [
    [["Ctrl", "K"], "Search pages, topics, groups, clusters, and what can be done on this page"],
    [["/"], "Go to the filter of the page"],
    [["?"], "Show these keys"],
    [["Alt", "R"], "Refresh this page"],
    [["Esc"], "Close a dialog"],
    [["↑", "↓"], "Move in a table, or in the results of the search"],
    [["Enter"], "Open the row, or what was found"],
    [["Space"], "Mark the row, in tables with marks"],
  ];

  let dialog = null;
  let input = null;
  let list = null;
  let status = null;
  let names = { text: "", found: [], more: 0, error: "" };
  let asking = null;
  let timer = 0;
  let options = [];
  let selected = 0;

  const subject = (cluster, kind, name) =>
    `/c/${encodeURIComponent(cluster)}/${kind}?${new URLSearchParams({ [kind]: name })}`;

  const link = (text, hint, href) => ({ text, hint, href, run: () => core.go(href) });

  // The entries of the page itself: [title of the group, items].
  const here = () => {
    const pages = [...document.querySelectorAll(".nav-link")].map((each) => link(each.textContent, "", each.getAttribute("href")));
    const acts = [...document.querySelectorAll("#content [data-act]:not(:disabled)")].map((each) => ({
      text: each.textContent, hint: each.closest("[data-panel]")?.querySelector("h2")?.textContent || "", run: () => each.click(),
    }));
    const clusters = [...document.querySelectorAll(".cluster:not([aria-current])")].map((each) => link(each.textContent, "", each.getAttribute("href")));
    const rest = [
      { text: "Switch between light and dark", hint: "", run: () => document.querySelector("[data-theme-toggle]").click() },
      { text: "Switch between local times and UTC", hint: "", run: () => core.toggleZone() },
      { text: "Refresh this page", hint: "Alt R", run: () => core.refresh() },
      { text: "Keys", hint: "?", run: () => showKeys() },
    ];
    return [["Pages", pages], ["On this page", acts], ["Clusters", clusters], ["Dashboard", rest]];
  };

  const contains = (item, words) => {
    const text = `${item.text} ${item.hint}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };

  const found = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const [pages, acts, ...rest] = here().map(([title, items]) => [title, items.filter((item) => contains(item, words))]);
    const cluster = core.page().cluster;
    const subjects = names.found.map((each) => link(each.text, each.kind, subject(cluster, each.kind, each.name)));
    return [pages, acts, ["Topics and groups", subjects], ...rest].filter(([, items]) => items.length > 0);
  };

  const draw = () => {
    options = [];
    const groups = found().map(([title, items], at) => {
      const id = `palette-group-${at}`;
      const rows = items.map((item) => {
        const row = core.element("div", { role: "option", id: `palette-${options.length}`, class: "palette-option", "aria-selected": "false" },
          core.element("span", {}, item.text), item.hint ? core.element("span", { class: "hint" }, item.hint) : null);
        const number = options.length;
        row.addEventListener("click", (event) => choose(number, event.ctrlKey || event.metaKey));
        row.addEventListener("pointermove", () => { if (selected !== number) select(number, false); });
        options.push({ item, row });
        return row;
      });
      return core.element("div", { role: "group", "aria-labelledby": id },
        core.element("div", { class: "palette-title", id, role: "presentation" }, title), ...rows);
    });
    list.replaceChildren(...groups);
    list.hidden = options.length === 0;
    input.setAttribute("aria-expanded", String(options.length > 0));
    tell();
    select(Math.min(selected, Math.max(0, options.length - 1)), true);
  };

  const tell = () => {
    const text = input.value.trim();
    const waiting = text !== "" && names.text !== text && names.error === "";
    let said = "";
    if (names.error) said = names.error;
    else if (waiting && options.length === 0) said = "Searching …";
    else if (options.length === 0) said = "Nothing was found.";
    else if (text !== "") said = `${options.length} found${names.more ? `, and ${core.count(names.more)} more topics and groups: type more of the name` : ""}.`;
    else said = "Type a part of a name. Arrow keys choose, Enter opens.";
    if (status.textContent !== said) status.textContent = said;
  };

  const select = (number, scrolls) => {
    options[selected]?.row.setAttribute("aria-selected", "false");
    selected = number;
    const option = options[number];
    if (option === undefined) { input.removeAttribute("aria-activedescendant"); return; }
    option.row.setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", option.row.id);
    if (scrolls) option.row.scrollIntoView({ block: "nearest" });
  };

  const choose = (number, inNewTab) => {
    const option = options[number];
    if (option === undefined) return;
    dialog.close();
    if (inNewTab && option.item.href) window.open(option.item.href, "_blank", "noopener");
    else option.item.run();
  };

  // Topics and groups are found by the server, which knows what the user may see.
  const ask = () => {
    const text = input.value.trim();
    if (asking !== null) { asking.close(); asking = null; }
    if (text === "") { names = { text: "", found: [], more: 0, error: "" }; draw(); return; }
    const place = document.querySelector("[data-palette]");
    const answer = (data, error) => {
      if (!dialog.open || input.value.trim() !== text) return;
      names = { text, found: data === null ? [] : data.found, more: data === null ? 0 : data.more, error };
      draw();
    };
    asking = core.subscribe({ cluster: core.page().cluster, channel: place.dataset.palette, params: { filter: text } }, {
      frame(frame) { if (frame.data || frame.error) answer(frame.data || null, frame.data ? "" : frame.error); },
      refused(reason) { answer(null, reason); },
    });
  };

  const make = () => {
    input = core.element("input", {
      type: "text", class: "palette-input", role: "combobox", "aria-label": "Search pages, topics, groups and acts", "aria-expanded": "false",
      "aria-controls": "palette-list", "aria-autocomplete": "list", autocomplete: "off", autocapitalize: "off", spellcheck: "false",
      placeholder: "Search pages, topics, groups …", maxlength: 200, enterkeyhint: "go",
    });
    list = core.element("div", { id: "palette-list", class: "palette-list", role: "listbox", "aria-label": "Results" });
    status = core.element("p", { class: "palette-status", role: "status" });
    dialog = core.element("dialog", { class: "dialog palette", "aria-label": "Search" }, input, list, status);
    document.body.append(dialog);
    input.addEventListener("input", () => {
      selected = 0;
      draw();
      clearTimeout(timer);
      timer = setTimeout(ask, ASK_DELAY_MS);
    });
    input.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        const step = event.key === "ArrowDown" ? 1 : -1;
        if (options.length) select((selected + step + options.length) % options.length, true);
      } else if (event.key === "Enter") {
        event.preventDefault();
        choose(selected, event.ctrlKey || event.metaKey);
      }
    });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    dialog.addEventListener("close", () => {
      clearTimeout(timer);
      if (asking !== null) { asking.close(); asking = null; }
      list.replaceChildren();
      options = [];
    });
  };

  const open = () => {
    if (core.page() === null || document.querySelector("dialog[open]") !== null) return;
    if (dialog === null) make();
    input.value = "";
    selected = 0;
    names = { text: "", found: [], more: 0, error: "" };
    dialog.showModal();
    draw();
    input.focus();
  };

  // The help on keys.

  const showKeys = () => {
    if (document.querySelector("dialog[open]") !== null) return;
    const rows = KEYS.map(([keys, text]) => core.element("tr", {},
      core.element("th", { scope: "row" }, ...keys.flatMap((key, at) => [at ? " " : "", core.element("kbd", {}, key)])),
      core.element("td", {}, text)));
    const close = core.element("button", { type: "button" }, "Close");
    const help = core.element("dialog", { class: "dialog", "aria-labelledby": "keys-title" },
      core.element("h2", { id: "keys-title" }, "Keys"), core.element("table", { class: "keys" }, core.element("tbody", {}, ...rows)),
      core.element("div", { class: "dialog-buttons" }, close));
    close.addEventListener("click", () => help.close());
    help.addEventListener("close", () => help.remove());
    document.body.append(help);
    help.showModal();
    close.focus();
  };

  const writes = (element) => element.closest("input, textarea, select, [contenteditable]") !== null;

  document.addEventListener("click", (event) => { if (event.target.closest("[data-palette]")) open(); });
  window.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      if (dialog !== null && dialog.open) dialog.close();
      else open();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || writes(event.target) || document.querySelector("dialog[open]") !== null) return;
    if (event.key === "?") {
      event.preventDefault();
      showKeys();
    } else if (event.key === "/") {
      const filter = [...document.querySelectorAll("#content input[type=search]")].find((each) => each.offsetParent !== null);
      if (filter === undefined) return;
      event.preventDefault();
      filter.focus();
      filter.select();
    }
  });
})();
