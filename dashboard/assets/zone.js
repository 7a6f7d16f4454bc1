// The switch between local times and UTC. The choice is kept by the browser; core.zone tells it to everything that
// writes times, and the event "dashboard-zone" that it changed.
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
  // Another tab of this browser.
  window.addEventListener("storage", (event) => {
    if (event.key !== KEY) return;
    label();
    document.dispatchEvent(new CustomEvent("dashboard-zone"));
  });
  new MutationObserver(label).observe(document.documentElement, { childList: true, subtree: true });
})();
