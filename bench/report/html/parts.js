"use strict";
// Charts do not fit the width of the paper by themselves.
(() => {
  const fit = () => { for (const plot of document.querySelectorAll(".plot")) Plotly.Plots.resize(plot); };
  matchMedia("print").addEventListener("change", fit);
})();
