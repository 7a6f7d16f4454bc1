"use strict";
// On paper charts have the width of the paper, which they do not get by themselves.
(() => {
  const fit = () => { for (const plot of document.querySelectorAll(".plot")) Plotly.Plots.resize(plot); };
  matchMedia("print").addEventListener("change", fit);
})();
