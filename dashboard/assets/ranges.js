// Any range of time, from-to, beside the links of the usual ones.
"use strict";

(() => {
  const core = window.dashboard.core;

  const local = (ms) => new Date(core.clock(ms)).toISOString().slice(0, 16);
  // NaN for a time that does not exist: Date.parse would take one that daylight saving skips for another hour.
  const parse = (text) => {
    const moment = core.withZone(text);
    return moment === text ? NaN : Date.parse(moment);
  };

  const fill = (place) => {
    const [from, to] = place.dataset.range ? place.dataset.range.split("-").map(Number) : [Date.now() - 7200000, Date.now() - 3600000];
    const input = (label, value) => {
      const made = core.element("input", { type: "datetime-local", "aria-label": label });
      made.value = local(value);
      return made;
    };
    const first = input("From", from);
    const last = input("To", to);
    const show = core.element("button", { type: "button", class: "quiet" }, "Show");
    show.addEventListener("click", () => {
      const range = [parse(first.value), parse(last.value)];
      const missing = [["From", first.value], ["To", last.value]].filter(([, text]) => text === "").map(([name]) => name);
      if (missing.length) {
        core.toast(`${missing.join(" and ")} ${missing.length > 1 ? "are" : "is"} missing: a range needs a date and a time for both.`);
        return;
      }
      const skipped = [first.value, last.value].find((_, index) => Number.isNaN(range[index]));
      if (skipped !== undefined) { core.toast(`${skipped} does not exist in ${core.zone()}: daylight saving skips it.`); return; }
      if (!(range[0] < range[1])) { core.toast("The end of a range must be after its beginning."); return; }
      const query = core.query();
      query.set("range", range.join("-"));
      core.go(`${window.location.pathname}?${query}`);
    });
    const details = core.element("details", { open: place.dataset.range !== "" },
      core.element("summary", { title: "Charts and events reach back 7 days" }, `From – to (${core.zone()})`), first, " – ", last, " ", show);
    place.replaceChildren(details);
  };

  new MutationObserver(() => {
    for (const place of document.querySelectorAll("[data-range]")) if (place.childElementCount === 0) fill(place);
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
