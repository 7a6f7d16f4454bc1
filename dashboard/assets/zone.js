// The switch between local times and UTC. The choice is kept by the browser. Code that writes times uses core.zone,
// code that reads times uses core.withZone, and the event "dashboard-zone" reports a change.
"use strict";

(() => {
  const core = window.dashboard.core;
  const KEY = "dashboard-utc";

  const label = () => {
    const isUtc = localStorage.getItem(KEY) === "1";
    for (const button of document.querySelectorAll("[data-zone-toggle]")) {
      const text = isUtc ? "Times: UTC" : "Times: local";
      if (button.textContent === text) continue;
      button.textContent = text;
      button.title = isUtc ? "Show local times" : `Show times in UTC, not of ${core.zone()}`;
    }
  };

  // A time without a zone belongs to the zone of the pages, not to that of the server. Returns the text with that
  // moment in UTC, and any other text unchanged. The forms of times are those of broker_cy/client/quantities.py.
  const ZONELESS = /^(s?@)?([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]{1,9}))?)?)?$/;
  core.withZone = (text) => {
    const match = ZONELESS.exec(text.trim());
    if (match === null) return text;
    const [year, month, day, hour, minute, second] = match.slice(2, 8).map((part) => Number(part || 0));
    const parts = [year, month - 1, day, hour, minute, second];
    const ms = Number((match[8] || "").padEnd(3, "0").slice(0, 3));
    const isUtc = core.zone() === "UTC";
    const found = isUtc ? new Date(Date.UTC(...parts, ms)) : new Date(...parts, ms);
    const shown = isUtc
      ? [found.getUTCFullYear(), found.getUTCMonth(), found.getUTCDate(), found.getUTCHours(), found.getUTCMinutes(), found.getUTCSeconds()]
      : [found.getFullYear(), found.getMonth(), found.getDate(), found.getHours(), found.getMinutes(), found.getSeconds()];
    // A time that does not exist, such as 02-30 or an hour that daylight saving skips, would become another one: the
    // server refuses the text as it is.
    const exists = year >= 1970 && shown.every((part, index) => part === parts[index]);
    return exists ? `${match[1] || ""}${found.toISOString()}` : text;
  };

  core.toggleZone = () => {
    if (localStorage.getItem(KEY) === "1") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, "1");
    label();
    // ranges.js fills the fields of a range again, in the new zone.
    for (const place of document.querySelectorAll("[data-range]")) place.replaceChildren();
    document.dispatchEvent(new CustomEvent("dashboard-zone"));
  };

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-zone-toggle]")) core.toggleZone();
  });
  // Another tab of this browser changed it.
  window.addEventListener("storage", (event) => {
    if (event.key !== KEY) return;
    label();
    document.dispatchEvent(new CustomEvent("dashboard-zone"));
  });
  new MutationObserver(label).observe(document.documentElement, { childList: true, subtree: true });
})();
