// A form whose values become the query of the page: who requests which operation.
"use strict";

(() => {
  const core = window.dashboard.core;

  const fill = (place) => {
    const spec = JSON.parse(place.dataset.explain);
    const inputs = spec.fields.map((field) => {
      const id = `explain-${field.name}`;
      const input = core.element("input", { id, name: field.name, type: "text", autocomplete: "off", spellcheck: "false", placeholder: field.hint });
      input.value = field.value;
      const found = spec.problems[field.name];
      if (found) {
        input.setAttribute("aria-invalid", "true");
        input.setAttribute("aria-describedby", `${id}-problem`);
      }
      return [input, core.element("div", { class: "field" }, core.element("label", { for: id }, field.label), input,
        found ? core.element("span", { class: "problem", id: `${id}-problem` }, found) : null)];
    });
    const form = core.element("form", { class: "explain-form", novalidate: true }, ...inputs.map(([, field]) => field),
      core.element("button", { type: "submit" }, spec.verb));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const query = core.query();
      for (const [input] of inputs) query.set(input.name, input.value);
      core.go(`${window.location.pathname}?${query}`);
    });
    place.append(form);
  };

  const renew = () => {
    for (const place of document.querySelectorAll("[data-explain]")) {
      if (place.dataset.filled === place.dataset.explain) continue;
      place.dataset.filled = place.dataset.explain;
      place.querySelector("form")?.remove();
      fill(place);
    }
  };
  new MutationObserver(renew).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-explain"] });
})();
