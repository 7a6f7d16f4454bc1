// Panels of kind "chart" (lines over time), "heat" (a value by row and time) and "timeline" (bars over time), by Plotly.
// States are described in collector/charts.py.
"use strict";

(() => {
  const core = window.dashboard.core;
  // Plotly shows its buttons while the pointer is over a chart. Without a pointer they would always cover the legend.
  const hasPointer = !matchMedia("(hover: none)").matches;
  const CONFIG = { displayModeBar: hasPointer ? "hover" : false, displaylogo: false, responsive: false, showSendToCloud: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
  const DASHES = ["solid", "dash", "dot", "dashdot"];

  // Colours of the theme. Each is read once, because reading one computes the styles of the document.
  const theme = new Map();
  document.addEventListener("dashboard-theme", () => theme.clear());
  const css = (name) => {
    if (!theme.get(name)) theme.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
    return theme.get(name);
  };
  const palette = () => [1, 2, 3, 4, 5, 6, 7, 8].map((number) => css(`--line-${number}`));

  // Names come from the cluster; Plotly understands some HTML, and % as the beginning of a field.
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("%", "&#37;");
  core.escaped = escaped;

  // The local time of the zone as if it were UTC.
  core.clock = (ms) => (core.zone() === "UTC" ? ms : ms - new Date(ms).getTimezoneOffset() * 60000);
  // Plotly's time axis has no zones. It takes numbers for times of the browser's zone, and texts as they are.
  const written = (ms) => new Date(ms).toISOString().slice(0, 23);
  const clock = (ms) => written(core.clock(ms));
  // The same for many times in ascending order. Offsets from UTC change at full quarters of an hour only.
  const QUARTER_MS = 900000;
  const clocks = (times) => {
    if (core.zone() === "UTC") return times.map(written);
    let until = -Infinity;
    let offset = 0;
    return times.map((ms) => {
      if (ms >= until) {
        offset = new Date(ms).getTimezoneOffset() * 60000;
        until = (Math.floor(ms / QUARTER_MS) + 1) * QUARTER_MS;
      }
      return written(ms - offset);
    });
  };

  // Charts with new data. One is drawn for each frame of the screen, after that frame was painted. So texts of the same
  // sample appear immediately, and a key press waits for one chart at most.
  const waiting = new Set();
  const drawNext = () => {
    const [draw] = waiting;
    waiting.delete(draw);
    if (waiting.size > 0) atNextFrame();
    draw();
  };
  const atNextFrame = () => requestAnimationFrame(() => setTimeout(drawNext));
  const drawLater = (draw) => {
    if (waiting.size === 0) atNextFrame();
    waiting.add(draw);
  };

  const base = (state) => ({
    uirevision: "fixed",
    margin: { l: 64, r: 12, t: 30, b: 34 },
    // Both, so that Plotly never takes a size of its own: on a resize it would give the chart the height of its place,
    // which has the height of the chart.
    width: state.width,
    height: state.height || 220,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: css("--text") },
    hovermode: "x unified",
    hoverlabel: { bgcolor: css("--panel"), font: { color: css("--text") } },
    modebar: { bgcolor: css("--panel"), color: css("--muted"), activecolor: css("--text") },
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
    xaxis: { type: "date", gridcolor: css("--grid"), linecolor: css("--grid"), zeroline: false, tickangle: 0, nticks: 6 },
    yaxis: { gridcolor: css("--grid"), zeroline: false, rangemode: "tozero", fixedrange: true, automargin: true },
  });

  // Steps of a clock: 1, 5, 15 s; 1, 5, 15 min; 1, 6, 12 h; days.
  const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
    43200, 86400, 172800, 432000, 864000, 2592000, 8640000].map((seconds) => seconds * 1000)];
  const durationTicks = (most) => {
    const step = STEPS_MS.find((each) => each >= most / 4) || most;
    const tickvals = [];
    for (let value = 0; value <= most * 1.05; value += step) tickvals.push(value);
    return { tickvals, ticktext: tickvals.map(core.span) };
  };

  // Ticks of the value axis as the tables write them.
  core.ticks = (unit, most) => {
    const format = core.units[unit] || core.count;
    const binary = unit === "B" || unit === "B/s";
    if (!(most > 0)) return { tickvals: [0], ticktext: [format(0)] };
    if (unit === "duration") return durationTicks(most);
    const root = binary ? 1024 ** Math.floor(Math.log(most) / Math.log(1024)) : 1;
    // Parts of what is counted do not exist.
    const rough = unit ? most / root / 4 : Math.max(1, most / 4);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough && (unit || Number.isInteger(each))) * root;
    const tickvals = [];
    for (let value = 0; value <= most * 1.05; value += step) tickvals.push(value);
    return { tickvals, ticktext: tickvals.map(format) };
  };

  const TONES = { BAD: "--bad", WARN: "--warn", GOOD: "--good", PLAIN: "--muted", MUTED: "--muted" };

  // Events: thin lines over the whole height, with a text under the pointer.
  const marksOf = (state, layout) => {
    const marks = state.marks || [];
    layout.shapes = marks.map(([t, , tone]) => ({
      type: "line", x0: clock(t), x1: clock(t), yref: "paper", y0: 0, y1: 1, layer: "below",
      line: { width: 1, dash: "dot", color: css(TONES[tone] || "--muted") },
    }));
    if (marks.length === 0) return [];
    return [{
      x: marks.map(([t]) => clock(t)), y: marks.map(() => 0), text: marks.map(([, text]) => escaped(text)), name: "events",
      mode: "markers", hovertemplate: "%{text}<extra></extra>", showlegend: false,
      marker: { symbol: "triangle-up", size: 9, color: marks.map(([, , tone]) => css(TONES[tone] || "--muted")) },
    }];
  };

  const lines = (state) => {
    const colours = palette();
    const times = clocks(state.t);
    const format = core.units[state.unit] || core.count;
    let colour = -1;
    const traces = state.series.map((series, number) => {
      const values = state.v[number];
      if (!series.role) colour += 1;
      const trace = {
        x: times, y: values, name: escaped(series.name), mode: "lines", type: "scatter", connectgaps: state.connect === true, legendgroup: series.name,
        line: { width: 1.6, color: colours[colour % 8], dash: DASHES[Math.floor(colour / 8) % 4] },
        text: values.map((value) => (value === null ? "" : format(value))),
        hovertemplate: "%{text}<extra>" + escaped(series.name) + "</extra>",
      };
      if (series.role) {
        Object.assign(trace, { showlegend: false, line: { width: 0.6, color: colours[colour % 8] } });
        trace.hovertemplate = "%{text}<extra>" + escaped(series.name) + (series.role === "low" ? ", least" : ", most") + "</extra>";
      }
      if (series.role === "high") Object.assign(trace, { fill: "tonexty", fillcolor: colours[colour % 8] + "2e" });
      return trace;
    });
    let most = 0;
    for (const values of state.v) for (const value of values) if (value !== null && value > most) most = value;
    const layout = base(state);
    Object.assign(layout.yaxis, core.ticks(state.unit, most), { range: [0, most > 0 ? most * 1.08 : 1] });
    // On a telephone, the legend of many lines would leave no room for them; pointing at a line names it.
    if (state.width < 500 && state.series.filter((series) => !series.role).length > 4) layout.showlegend = false;
    if (state.from_ms) layout.xaxis.range = [clock(state.from_ms), clock(state.to_ms)];
    return [[...traces, ...marksOf(state, layout)], layout];
  };

  const heat = (state) => {
    const format = core.units[state.unit] || core.count;
    const z = state.v.map((row) => row.map((value) => (value === null ? null : Math.log10(Math.max(value, 1e-9)))));
    const layout = base(state);
    layout.hovermode = "closest";
    layout.showlegend = false;
    layout.margin.l = 150;
    layout.margin.b = 46;
    layout.yaxis = { type: "category", autorange: "reversed", fixedrange: true, automargin: true, showgrid: false };
    // On a telephone, names of the usual size would be cut.
    if (state.width < 500) layout.yaxis.tickfont = { size: 10 };
    const flat = state.v.flat().filter((value) => value !== null && value > 0);
    const low = Math.floor(Math.log10(Math.min(...flat, 1e9)));
    const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...flat, 1))));
    const tickvals = [];
    for (let power = low; power <= high; power += 1) tickvals.push(power);
    return [[{
      type: "heatmap", x: clocks(state.t), y: state.series.map((series) => series.name), z, hoverongaps: false,
      zmin: low, zmax: high, colorscale: document.documentElement.dataset.theme === "dark" ? "Viridis" : "YlOrRd",
      reversescale: document.documentElement.dataset.theme !== "dark", text: state.v.map((row) => row.map((value) => (value === null ? "" : format(value)))),
      hovertemplate: "%{y}<br>%{x}<br>%{text}<extra></extra>",
      colorbar: { thickness: 10, tickvals, ticktext: tickvals.map((power) => format(10 ** power)) },
    }], layout];
  };

  // Bars have a row, a name (for the legend), a time, a text of several lines, a tone or a colour (0 to 7, or the next), and a path.
  const timeline = (state) => {
    const tones = new Map();
    for (const bar of state.bars) {
      if (!tones.has(bar.name)) tones.set(bar.name, []);
      tones.get(bar.name).push(bar);
    }
    const colours = palette();
    const traces = [...tones].map(([name, bars], number) => ({
      type: "bar", orientation: "h", name: escaped(name), y: bars.map((bar) => escaped(bar.row)), base: bars.map((bar) => clock(bar.from)),
      x: bars.map((bar) => Math.max(bar.to - bar.from, state.least_ms || 1)), textposition: "none",
      text: bars.map((bar) => escaped(bar.text).replaceAll("\n", "<br>")), customdata: bars.map((bar) => bar.href || ""),
      hovertemplate: "%{text}<extra></extra>",
      marker: { color: bars[0].tone ? css(TONES[bars[0].tone]) : colours[(bars[0].colour ?? number) % 8] },
    }));
    const layout = base(state);
    layout.barmode = "overlay";
    layout.hovermode = "closest";
    layout.margin.l = 12;
    // Rows in the order of the server, also those that have no bar of the first trace.
    const rows = (state.order || [...new Set(state.bars.map((bar) => bar.row))]).map(escaped);
    layout.yaxis = { type: "category", categoryorder: "array", categoryarray: rows, range: [rows.length - 0.5, -0.5], fixedrange: true, automargin: true };
    layout.hoverlabel.align = "left";
    if (state.from_ms) layout.xaxis.range = [clock(state.from_ms), clock(state.to_ms)];
    if (!rows.length) layout.yaxis.visible = false;
    return [traces, layout];
  };

  const renderer = (figure, isEmpty) => ({
    create(panel) {
      const place = core.element("div", { class: "chart", role: "figure", "aria-label": panel.spec.title });
      panel.body.replaceChildren(place);
      let state = null;
      let closed = false;
      let listens = false;
      let width = 0;
      let Plotly = null;
      core.load("Plotly").then((found) => { Plotly = found; later(); }, (error) => panel.refused(error.message));
      const draw = () => {
        if (closed || Plotly === null || state === null || panel.body.hidden || place.clientWidth === 0) return;
        width = place.clientWidth;
        const [traces, layout] = figure({ height: panel.options.height, unit: panel.options.unit, width, ...state });
        Plotly.react(place, traces, layout, CONFIG);
        if (!listens) {
          listens = true;
          place.on("plotly_click", (event) => { if (event.points[0]?.customdata) core.go(event.points[0].customdata); });
        }
      };
      // Charts are not drawn while the tab is hidden.
      const later = () => drawLater(draw);
      const note = core.element("p", { class: "panel-note" });
      const tell = () => {
        const text = (state.note || "").replace(/@([0-9]+)/, (_, ms) => core.time(Number(ms)).slice(0, 19));
        if (note.textContent !== text) note.textContent = text;
      };
      panel.body.append(note);
      const view = core.simple(panel, (next) => { state = next; tell(); later(); }, isEmpty);
      document.addEventListener("dashboard-theme", later);
      const sizes = new ResizeObserver(() => { if (place.clientWidth !== width) later(); });
      sizes.observe(place);
      return {
        redraw() { view.redraw(); },
        close() {
          closed = true;
          sizes.disconnect();
          view.close();
          document.removeEventListener("dashboard-theme", later);
          if (Plotly !== null) Plotly.purge(place);
          panel.body.replaceChildren();
        },
      };
    },
  });

  core.renderers.chart = renderer(lines, (state) => state.t.length === 0 || state.series.length === 0);
  core.renderers.heat = renderer(heat, (state) => state.t.length === 0 || state.series.length === 0);
  core.renderers.timeline = renderer(timeline, (state) => state.bars.length === 0);
})();
