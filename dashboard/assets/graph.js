// Panels of kind "graph": boxes with texts, and lines between them, at the places that the server has computed.
"use strict";

(() => {
  const core = window.dashboard.core;
  const SVG = "http://www.w3.org/2000/svg";

  const shape = (name, attributes = {}, ...children) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // From the right edge of one box to the left edge of another; of boxes above each other, from below to above. Internal
  // topics go down into another band, and enter it in the space above its boxes.
  const path = (from, to, [width, height], kind) => {
    if (kind === "topic" && from.y !== to.y) {
      const x = to.x + width / 2;
      return `M${from.x + width / 2},${from.y + height}V${to.y - 12}H${x}V${to.y}`;
    }
    if (from.x === to.x) {
      const [upper, lower] = from.y < to.y ? [from, to] : [to, from];
      const x = from.x + width / 2;
      return `M${x},${upper.y + height}L${x},${lower.y}`;
    }
    const [left, right] = from.x < to.x ? [from, to] : [to, from];
    const begin = [left.x + width, left.y + height / 2];
    const end = [right.x, right.y + height / 2];
    const middle = (begin[0] + end[0]) / 2;
    return `M${begin}C${middle},${begin[1]} ${middle},${end[1]} ${end}`;
  };

  const PADDING = 10;
  const SMALLEST = 0.8;

  // A text that is wider than its box loses its middle: names of internal topics and stores differ at both ends.
  const fit = (text, width) => {
    const whole = text.textContent;
    const most = Math.ceil(whole.length * width / Math.max(width, text.getComputedTextLength()));
    for (let kept = most; kept > 3 && text.getComputedTextLength() > width; kept--) {
      text.textContent = `${whole.slice(0, Math.ceil(kept / 2))}…${whole.slice(whole.length - Math.floor(kept / 2))}`;
    }
  };

  const drawBox = (node, [width, height]) => {
    const radius = { store: 14, source: 4, sink: 4 }[node.kind] ?? 8;
    const texts = [["graph-title", node.title, 19], ["graph-name", node.name, 35], ["graph-figures", node.figures, 53]];
    const tip = [node.title, node.name].filter(Boolean).join("\n");
    const box = shape("g", { class: `graph-box graph-${node.kind} graph-tone-${node.tone.toLowerCase()}`, transform: `translate(${node.x},${node.y})` },
      shape("title", {}, tip), shape("rect", { width, height, rx: radius }),
      ...texts.filter(([, text]) => text).map(([name, text, y]) => shape("text", { class: name, x: PADDING, y }, text)));
    return node.href ? shape("a", { href: node.href }, box) : box;
  };

  core.renderers.graph = {
    create(panel) {
      const note = core.element("p", { class: "panel-note" });
      const place = core.element("div", { class: "graph-scroll", tabindex: "0", role: "group", "aria-label": panel.title });
      panel.body.replaceChildren(note, place);
      const show = (state) => {
        note.textContent = state.note;
        note.hidden = !state.note;
        const boxes = new Map(state.nodes.map((node) => [node.id, node]));
        const arrow = shape("marker", { id: "graph-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
          shape("path", { d: "M0,0L8,4L0,8z" }));
        const lines = state.lines.filter(([from, to]) => boxes.has(from) && boxes.has(to)).map(([from, to, kind]) => {
          const mark = kind === "store" ? {} : { "marker-end": "url(#graph-arrow)" };
          return shape("path", { class: `graph-line graph-line-${kind}`, d: path(boxes.get(from), boxes.get(to), state.box, kind), ...mark });
        });
        const [width, height] = [state.width, state.height];
        // A picture that is a little too wide is made smaller; a larger one is scrolled.
        const style = `width: ${width}px; max-width: 100%; min-width: ${Math.round(SMALLEST * width)}px`;
        place.replaceChildren(shape("svg", { style, viewBox: `0 0 ${width} ${height}` },
          shape("defs", {}, arrow), ...state.bands.map(([title, y]) => shape("text", { class: "graph-band", x: 12, y: y + 12 }, title)),
          ...lines, ...state.nodes.map((node) => drawBox(node, state.box))));
        for (const text of place.querySelectorAll(".graph-box text")) fit(text, state.box[0] - 2 * PADDING);
      };
      const view = core.simple(panel, show, (state) => state.nodes.length === 0);
      return { close() { view.close(); panel.body.replaceChildren(); } };
    },
  };
})();
