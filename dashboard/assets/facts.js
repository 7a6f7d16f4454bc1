// Panels of kind "facts": names with their values. `query` of a state are parameters of the page that the subject itself
// decides, as the type of a group; the option of this name has those for which the page was built.
"use strict";

(() => {
  const core = window.dashboard.core;

  core.renderers.facts = {
    create(panel) {
      const list = core.element("dl", { class: "facts" });
      panel.body.replaceChildren(list);
      const shown = new Map();
      let asked = "";
      const show = (state) => {
        const query = JSON.stringify(state.query);
        if (query !== JSON.stringify(panel.options.query) && query !== asked) {
          asked = query;
          core.rebuild(state.query);
        }
        const names = state.facts.map(([name]) => name);
        if (names.join("\n") !== [...shown.keys()].join("\n")) {
          shown.clear();
          list.replaceChildren(...state.facts.map(([name]) => {
            const value = core.element("dd");
            shown.set(name, value);
            return core.element("div", { class: "fact" }, core.element("dt", {}, name), value);
          }));
        }
        for (const [name, value, tone] of state.facts) {
          const place = shown.get(name);
          const text = core.cellText(value);
          if (place.textContent !== text) place.textContent = text;
          place.className = `tone-${tone.toLowerCase()}`;
        }
      };
      const view = core.simple(panel, show, (state) => state.facts.length === 0);
      return { close() { view.close(); panel.body.replaceChildren(); } };
    },
  };
})();
