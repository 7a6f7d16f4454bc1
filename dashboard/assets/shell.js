// The frame around the pages: links without reloading, theme, time zone, cluster list, account.
"use strict";

(() => {
  const core = window.dashboard.core;

  // Dash loads the page of an address when its own event says that the address changed.
  core.go = (path) => {
    window.history.pushState({}, "", path);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    window.scrollTo(0, 0);
  };

  // Builds the page again, with these parameters. If the address has them already, the server knows them by now: they are
  // removed, because Dash builds a page only if its address changes.
  core.rebuild = (query) => {
    const now = core.query();
    const isNew = Object.entries(query).some(([name, value]) => now.get(name) !== value);
    core.setQuery(isNew ? query : Object.fromEntries(Object.keys(query).map((name) => [name, ""])));
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
  };

  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest("a[href]");
    if (link === null || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href, window.location.href);
    if (url.origin !== window.location.origin || !url.pathname.startsWith("/c/")) return;
    event.preventDefault();
    core.go(url.pathname + url.search);
  });

  // Light, dark, or as the system.
  const wanted = () => localStorage.getItem("dashboard-theme") || "system";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const applyTheme = () => {
    const theme = wanted() === "system" ? (dark.matches ? "dark" : "light") : wanted();
    document.documentElement.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("dashboard-theme"));
  };
  applyTheme();
  dark.addEventListener("change", applyTheme);

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-toggle]")) {
      localStorage.setItem("dashboard-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
      applyTheme();
    }
    const open = document.querySelector("details.clusters[open]");
    if (open !== null && !open.contains(event.target)) open.open = false;
  });

  // Parts that depend on the current page.
  // The reason why an act cannot be done; empty if it may be tried.
  const obstacle = (button, facts) => {
    if (facts.readonly) return "The dashboard is read-only.";
    if (facts.role < JSON.parse(button.dataset.act).role) return "Your role does not allow this.";
    // An act on an unknown subject can only fail.
    const state = document.getElementById(button.dataset.needs || "")?.querySelector("[data-state]");
    return state?.dataset.state === "error" ? state.textContent : "";
  };

  core.checkActs = () => {
    const facts = core.page();
    if (facts === null) return;
    for (const button of document.querySelectorAll("[data-act]")) {
      const text = obstacle(button, facts);
      if (button.disabled !== (text !== "")) button.disabled = text !== "";
      if (button.title !== text) button.title = text;
    }
  };

  // On a telephone the navigation is one row that scrolls: the link of the page must be visible.
  let current = null;
  const showCurrent = () => {
    const link = document.querySelector(".nav-link[aria-current]");
    if (link === current) return;
    current = link;
    if (link === null) return;
    const nav = link.parentElement;
    const from = nav.getBoundingClientRect();
    const own = link.getBoundingClientRect();
    nav.scrollLeft += own.left - from.left - (from.width - own.width) / 2;
  };

  let shown = "";
  const arrived = () => {
    const facts = core.page();
    if (facts === null) return;
    const account = document.querySelector("[data-account]");
    if (account !== null && account.childElementCount === 0) {
      const roles = { 1: "viewer", 2: "operator", 3: "admin" };
      account.replaceChildren(core.element("span", {}, `${facts.user} (${roles[facts.role]}${facts.readonly ? ", read-only" : ""})`));
      if (facts.login !== "loopback") account.append(core.element("a", { href: "/logout", class: "link" }, "Log out"));
    }
    core.checkActs();
    showCurrent();
    const now = window.location.pathname;
    if (now !== shown) {
      // Screen readers and the keyboard continue in the new page.
      if (shown !== "") document.getElementById("content")?.focus({ preventScroll: true });
      shown = now;
    }
  };
  new MutationObserver(arrived).observe(document.documentElement, { childList: true, subtree: true });
})();
