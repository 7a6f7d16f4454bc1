// Names shared by the other files, and small helpers. Dash loads assets in alphabetical order: this one first.
"use strict";

window.dashboard = window.dashboard || {};

(() => {
  const core = {};

  // Renderers of panels by kind: {create(panel) -> view}; a view has show(data), patch(patch) -> bool, close().
  core.renderers = {};

  // An element with attributes and children; texts are never parsed as HTML.
  core.element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    for (const child of children) {
      if (child !== undefined && child !== null) made.append(child);
    }
    return made;
  };

  // Libraries are loaded when the first panel needs them; each sets a global name.
  const FILES = { Plotly: "plotly-cartesian.min.js", agGrid: "ag-grid-community.min.js" };
  const loaded = {};
  core.load = (name) => {
    if (loaded[name] === undefined) {
      loaded[name] = new Promise((done, failed) => {
        const script = core.element("script", { src: `/assets/vendor/${FILES[name]}` });
        script.onload = () => done(window[name]);
        script.onerror = () => { delete loaded[name]; failed(new Error(`${FILES[name]} cannot be loaded`)); };
        document.head.append(script);
      });
    }
    return loaded[name];
  };

  core.page = () => {
    const found = document.querySelector("[data-page]");
    return found === null ? null : JSON.parse(found.dataset.page);
  };

  // Changes the query of the address without loading a page, so that ranges, filters and marks can be shared as links.
  core.query = () => new URLSearchParams(window.location.search);
  core.setQuery = (changes) => {
    const query = core.query();
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null || value === undefined) query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    const path = window.location.pathname + (text ? "?" + text : "");
    window.history.replaceState(window.history.state, "", path);
  };

  core.duration = (ms) => {
    const seconds = Math.max(0, Math.round(ms / 1000));
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
    return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  };

  // Bytes with the prefixes of the tables (KiB), and plain numbers with a few digits.
  core.size = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let value = bytes;
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return `${unit === 0 || Math.abs(value) >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
  };
  core.micros = (us) => {
    if (us < 1000) return `${Math.round(us)} µs`;
    if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 2 : 1)} ms`;
    return `${(us / 1e6).toFixed(2)} s`;
  };
  // Creating a formatter takes as long as using it a hundred times.
  const fine = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  core.count = (value) => (Math.abs(value) < 10 ? fine : whole).format(Number(value));
  // Durations in ms, with two units at most, as broker_cy.reporting.numbers writes them.
  core.span = (ms) => {
    if (ms < 1000) return `${Math.round(ms)} ms`;
    if (ms < 60000) return `${Number((ms / 1000).toFixed(1))} s`;
    const seconds = Math.floor(ms / 1000);
    const [size, unit, less, lesser] = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]].find(([each]) => seconds >= each);
    const rest = Math.floor((seconds % size) / less);
    return rest ? `${Math.floor(seconds / size)} ${unit} ${rest} ${lesser}` : `${Math.floor(seconds / size)} ${unit}`;
  };
  core.units = {
    "B": core.size, "B/s": (value) => core.size(value) + "/s", "us": core.micros,
    "ms": (value) => core.micros(value * 1000), "duration": core.span, "/s": (value) => core.count(value) + "/s",
    "%": (value) => `${value.toFixed(1)} %`, "": core.count,
  };

  const local = Intl.DateTimeFormat().resolvedOptions().timeZone;
  core.zone = () => (localStorage.getItem("dashboard-utc") === "1" ? "UTC" : local);
  const formats = {};   // by zone
  core.time = (ms) => {
    const timeZone = core.zone();
    formats[timeZone] ??= new Intl.DateTimeFormat("sv-SE", {
      timeZone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
      second: "2-digit", fractionalSecondDigits: 3,
    });
    // Swedish dates are ISO 8601, with a comma before the milliseconds.
    return formats[timeZone].format(ms).replace(",", ".");
  };

  window.dashboard.core = core;
})();
