// Panels of kind "text": lines of a schema or of a difference, each with its tone.
"use strict";

(() => {
  const core = window.dashboard.core;

  core.renderers.text = {
    create(panel) {
      const place = core.element("pre", { class: "lines", tabindex: "0" });
      panel.body.replaceChildren(place);
      let shown = "";
      const show = (state) => {
        const now = JSON.stringify(state);
        if (now === shown) return;
        shown = now;
        place.replaceChildren(...state.lines.map(([line, tone]) => core.element("span", { class: `tone-${tone.toLowerCase()}` }, `${line}\n`)),
          ...(state.more ? [core.element("span", { class: "tone-muted" }, `… and ${core.count(state.more)} more lines`)] : []));
      };
      const view = core.simple(panel, show, (state) => state.lines.length === 0);
      return { close() { view.close(); panel.body.replaceChildren(); } };
    },
  };

  // The choice of a file in the form of a schema: the browser reads it.
  // A request has 8 MiB at most (guard.py), and JSON escapes each quotation mark.
  const FILE_BYTES_MAX = 4 << 20;
  const KINDS = { avsc: "AVRO", json: "JSON", proto: "PROTOBUF" };

  document.addEventListener("dashboard-form", (event) => {
    const { act, inputs } = event.detail;
    if (act !== "register-schema") return;
    const file = core.element("input", { type: "file", id: "file-text", "aria-label": "File with the schema" });
    file.addEventListener("change", async () => {
      const [chosen] = file.files;
      if (chosen === undefined) return;
      if (chosen.size > FILE_BYTES_MAX) {
        core.toast(`${chosen.name} has ${core.size(chosen.size)}; ${core.size(FILE_BYTES_MAX)} are allowed.`);
        file.value = "";
        return;
      }
      inputs.get("text").value = await chosen.text();
      const kind = KINDS[chosen.name.split(".").pop()];
      if (kind) inputs.get("kind").value = kind;
    });
    inputs.get("text").after(file);
  });
})();
