"use strict";
// Draws the charts in the colours of the theme, without the targets that the reader hides. `FIGURES` is in the page.
(() => {
  // Blue, orange, green, purple, ochre, grey: also distinct for readers who cannot tell red from green.
  const THEMES = {
    light: { ink: "#1b1f24", muted: "#5a6470", grid: "#e6e9ed", surface: "#ffffff",
             series: ["#0072b2", "#d55e00", "#009e73", "#a0519f", "#8a6d00", "#4b5563"] },
    dark: { ink: "#e6e9ed", muted: "#9aa5b1", grid: "#2a3038", surface: "#181c22",
            series: ["#56b4e9", "#ff9d4d", "#3ccfa0", "#d98cd6", "#e8c547", "#aeb6c2"] },
  };
  const DASHES = ["solid", "dash", "dot"]; // if there are more targets than colours
  // The same dashes in a legend.
  const PATTERNS = {
    solid: (own) => own,
    dash: (own) => `repeating-linear-gradient(90deg, ${own} 0 6px, transparent 6px 9px)`,
    dot: (own) => `repeating-linear-gradient(90deg, ${own} 0 2px, transparent 2px 5px)`,
  };
  const LABELS_APART_PX = 4;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set();
  const select = document.getElementById("label");

  const theme = () => THEMES[dark.matches ? "dark" : "light"];
  const colour = (entity) => entity === null ? theme().ink : theme().series[entity % theme().series.length];
  const dash = (entity) => DASHES[Math.floor((entity ?? 0) / theme().series.length) % DASHES.length];

  function shown(trace) {
    if (hidden.has(trace.meta.entity)) return false;
    return trace.meta.label === null || !select || trace.meta.label === select.value;
  }

  function coloured(trace) {
    const { entity } = trace.meta;
    const own = colour(entity);
    return {
      ...trace,
      showlegend: false,
      line: { ...trace.line, color: own, dash: dash(entity) },
      marker: { ...trace.marker, color: own, line: { ...(trace.marker || {}).line, color: own } },
      // Bands of forecasts, beneath their lines.
      ...(trace.fill ? { fillcolor: `${own}33` } : {}),
      // Plotly selects a readable text colour inside of a bar.
      ...(trace.type === "bar" ? { outsidetextfont: { color: theme().ink, size: 12 } }
        : { textfont: { color: theme().ink, size: 12 } }),
    };
  }

  function axis(own) {
    const { muted, grid } = theme();
    return { gridcolor: grid, linecolor: grid, zerolinecolor: grid, tickcolor: grid, ...own,
             title: { ...own.title, font: { size: 12, color: muted }, standoff: 8 }, tickfont: { size: 12, color: muted } };
  }

  function layout(own) {
    const { ink, surface } = theme();
    return {
      autosize: true, margin: { l: 62, r: 16, t: 10, b: 48 }, hovermode: "closest",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: surface, bordercolor: ink, font: { color: ink, size: 13 } },
      ...own,
      xaxis: axis(own.xaxis), yaxis: axis(own.yaxis),
      shapes: (own.shapes || []).map((shape) => ({ ...shape, line: { ...shape.line, color: theme().muted } })),
    };
  }

  // Hides the labels of marks that would cover an earlier one; their lines and their texts on hover stay.
  function separate(plot) {
    const kept = [];
    for (const label of plot.querySelectorAll(".scatterlayer .textpoint text")) {
      const own = label.getBoundingClientRect();
      const covers = kept.some((other) => own.left < other.right + LABELS_APART_PX && own.right > other.left - LABELS_APART_PX
        && own.top < other.bottom && own.bottom > other.top);
      label.style.visibility = covers ? "hidden" : "";
      if (!covers) kept.push(own);
    }
  }

  function draw() {
    for (const figure of FIGURES) {
      const data = structuredClone(figure.data).filter(shown).map(coloured);
      Plotly.react(figure.id, data, layout(structuredClone(figure.layout)), { displayModeBar: false, responsive: true });
    }
    for (const swatch of document.querySelectorAll(".swatch")) {
      const entity = Number(swatch.dataset.entity);
      swatch.style.background = PATTERNS[dash(entity)](colour(entity));
    }
  }

  for (const button of document.querySelectorAll("button[data-entity]")) {
    button.addEventListener("click", () => {
      const entity = Number(button.dataset.entity);
      if (!hidden.delete(entity)) hidden.add(entity);
      button.setAttribute("aria-pressed", String(!hidden.has(entity)));
      draw();
    });
  }
  if (select) select.addEventListener("change", draw);
  dark.addEventListener("change", draw);
  draw();
  for (const plot of document.querySelectorAll(".plot")) {
    separate(plot);
    plot.on("plotly_afterplot", () => separate(plot));
  }
  // Charts do not fit the width of the paper by themselves.
  const fit = () => { for (const plot of document.querySelectorAll(".plot")) Plotly.Plots.resize(plot); };
  matchMedia("print").addEventListener("change", fit);
})();
