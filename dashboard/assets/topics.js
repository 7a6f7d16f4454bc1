// Data of topics that only the browser has: favourites and saved filters. Also marked rows as part of an address:
// buttons with data-marked-link (a path) and data-marked-name (of the parameter).
"use strict";

(() => {
  const core = window.dashboard.core;
  const FAVOURITES_MAX = 50;
  const FILTERS_MAX = 20;

  const stored = (key) => {
    try {
      const found = JSON.parse(localStorage.getItem(key) || "[]");
      return Array.isArray(found) ? found.filter((each) => typeof each === "string") : [];
    } catch {
      return [];
    }
  };

  // Favourites of each cluster.

  const keyOf = (cluster) => `dashboard-favourites:${cluster}`;
  const favourites = () => stored(keyOf(core.page()?.cluster || "")).slice(0, FAVOURITES_MAX);

  const toggle = (topic) => {
    const names = favourites();
    const at = names.indexOf(topic);
    if (at >= 0) names.splice(at, 1);
    else if (names.length >= FAVOURITES_MAX) { core.toast(`${FAVOURITES_MAX} favourites are allowed.`); return; }
    else names.push(topic);
    localStorage.setItem(keyOf(core.page().cluster), JSON.stringify(names.sort()));
    for (const panel of core.panels()) if (panel.spec.channel === "topics") panel.view.reload();
    for (const button of document.querySelectorAll("[data-favourite]")) draw(button);
  };

  const draw = (button) => {
    const topic = button.dataset.favourite;
    const is = favourites().includes(topic);
    const text = button.dataset.long === undefined ? (is ? "★" : "☆") : is ? "★ Favourite" : "☆ Favourite";
    if (button.textContent !== text) button.textContent = text;
    button.setAttribute("aria-pressed", String(is));
  };

  core.cellKinds.favourite = (cell) => {
    const button = core.element("button", { type: "button", class: "star", tabindex: "-1", "data-favourite": cell.t, "aria-label": `Favourite ${cell.t}` });
    draw(button);
    return button;
  };

  core.tableParams.topics = () => {
    const names = favourites();
    return names.length ? { favourites: names.join(",") } : {};
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-favourite]");
    if (button !== null) toggle(button.dataset.favourite);
  });

  // Saved filters of each kind of table, which the filter field suggests.

  const addFilters = (place) => {
    const input = place.querySelector("input");
    const panel = core.panelOf(place);
    if (input === null || panel === undefined) return;
    place.dataset.saved = "";
    const key = `dashboard-filters:${panel.spec.channel}`;
    const list = core.element("datalist", { id: `${input.id}-saved` });
    const button = core.element("button", { type: "button", class: "quiet save-filter", hidden: true });
    const show = () => {
      const saved = stored(key);
      list.replaceChildren(...saved.map((value) => core.element("option", { value })));
      const text = input.value.trim();
      button.hidden = text === "";
      button.textContent = saved.includes(text) ? "Forget filter" : "Save filter";
    };
    button.addEventListener("click", () => {
      const text = input.value.trim();
      const saved = stored(key);
      const kept = saved.includes(text) ? saved.filter((each) => each !== text) : [text, ...saved].slice(0, FILTERS_MAX);
      localStorage.setItem(key, JSON.stringify(kept));
      show();
    });
    input.setAttribute("list", list.id);
    input.addEventListener("input", show);
    place.append(list, button);
    show();
  };

  const scan = () => {
    for (const button of document.querySelectorAll("[data-favourite]:empty")) draw(button);
    for (const place of document.querySelectorAll("[data-filter]")) {
      // The table creates its field again when the page changes.
      if (place.dataset.saved === undefined || !place.querySelector("input")?.hasAttribute("list")) {
        place.querySelectorAll("datalist, .save-filter").forEach((each) => each.remove());
        addFilters(place);
      }
    }
  };
  new MutationObserver(scan).observe(document.documentElement, { childList: true, subtree: true });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-marked-link]");
    if (button === null) return;
    const marked = core.marked(button);
    if (marked.length === 0) {
      core.toast("Mark rows first: with their checkboxes, or with the space bar.");
      return;
    }
    const url = new URL(button.dataset.markedLink, window.location.href);
    url.searchParams.set(button.dataset.markedName, marked.map(Number).sort((a, b) => a - b).join(","));
    core.go(url.pathname + url.search);
  });
})();
