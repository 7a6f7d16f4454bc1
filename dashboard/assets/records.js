// The page of records: the form of the request, the progress of the reading, one record in full, files as values. The
// server decides and reads (pages/records.py, record_routes.py); the address has the request.
"use strict";

(() => {
  const core = window.dashboard.core;
  // A broker accepts records of 1 MiB by default; a request to the dashboard may have 8 MiB.
  const FILE_BYTES_MAX = 5 << 20;
  const FORMATS = ["auto", "text", "json", "hex"];

  const button = (text, options, run) => {
    const made = core.element("button", { type: "button", ...options }, text);
    made.addEventListener("click", run);
    return made;
  };

  // The form.

  const fieldOf = (field, problems) => {
    const id = `read-${field.name}`;
    let input;
    if (field.choices.length) {
      input = core.element("select", { id }, ...field.choices.map((choice) => core.element("option", { value: choice, selected: choice === field.value }, choice)));
    } else {
      input = core.element("input", { id, type: "text", autocomplete: "off", spellcheck: "false", placeholder: field.hint, maxlength: 1000 });
      input.value = field.value;
    }
    const problem = problems[field.name];
    if (problem) {
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", `${id}-problem`);
    }
    return [input, core.element("div", { class: `read-field read-${field.name}` }, core.element("label", { for: id }, field.label), input,
      problem ? core.element("span", { class: "problem", id: `${id}-problem` }, problem) : null)];
  };

  const fillForm = (place) => {
    const spec = JSON.parse(place.dataset.recordsForm);
    const inputs = new Map();
    const main = [];
    const filters = [];
    for (const field of spec.fields) {
      const [input, element] = fieldOf(field, spec.problems);
      inputs.set(field.name, input);
      (spec.filters.includes(field.name) ? filters : main).push(element);
    }
    const from = inputs.get("from");
    from.setAttribute("list", "read-presets");
    main.push(core.element("datalist", { id: "read-presets" }, ...spec.presets.map((value) => core.element("option", { value }))));

    const values = () => {
      const found = {};
      for (const field of spec.fields) {
        const value = inputs.get(field.name).value.trim();
        if (value !== "" && value !== field.default) found[field.name] = field.name === "from" ? core.withZone(value) : value;
      }
      return found;
    };
    const go = (live) => {
      const query = new URLSearchParams({ topic: spec.topic, ...values() });
      if (live) query.set("live", "1");
      if (query.toString() === core.query().toString()) { again(); return; }
      core.go(`${window.location.pathname}?${query}`);
    };
    const used = spec.fields.some((field) => spec.filters.includes(field.name) && field.value !== field.default);
    const form = core.element("form", { class: "read-form", "aria-label": "Records to read" },
      core.element("div", { class: "read-line" }, ...main,
        core.element("div", { class: "read-buttons" },
          core.element("button", { type: "submit" }, "Read"),
          button("Live tail", { class: "quiet" }, () => go(true)),
          core.element("a", { href: spec.export, class: "link", download: "", title: "All records from this position on, as JSON lines" }, "Export"))),
      core.element("details", { open: used }, core.element("summary", {}, "Filters and format"), core.element("div", { class: "read-line" }, ...filters)));
    form.addEventListener("submit", (event) => { event.preventDefault(); go(false); });
    const other = spec.problems.topic;
    place.replaceChildren(...place.querySelectorAll("h2"), form, other ? core.element("p", { class: "problem", role: "alert" }, other) : "");
    place.querySelector("[aria-invalid]")?.focus();
  };

  new MutationObserver(() => {
    for (const place of document.querySelectorAll("[data-records-form]")) {
      if (place.dataset.filled === place.dataset.recordsForm) continue;
      place.dataset.filled = place.dataset.recordsForm;
      fillForm(place);
    }
  }).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-records-form"] });

  // The progress of a reading.

  const step = async (name, options, cluster) => {
    let answer;
    try {
      answer = await core.post(`/reading/${name}`, { cluster, job: options.job });
    } catch (error) {
      answer = { error: `the dashboard cannot be reached: ${error.message}` };
    }
    if (answer.error && name !== "leave") core.toast(answer.error);
  };

  // Reads again according to the address.
  const again = () => {
    const panel = [...core.panels()].find((each) => each.spec.kind === "reading");
    if (panel === undefined || panel.view.ended()) window.location.reload();
    else step("again", panel.options, panel.spec.cluster);
  };

  const LABELS = { stop: "Stop", resume: "Resume", next: "Next page" };

  core.renderers.reading = {
    create(panel) {
      const bar = core.element("progress", { max: "1", "aria-label": "Progress of the reading" });
      const state = core.element("strong", { role: "status" });
      const parts = core.element("span", { class: "reading-parts" });
      const about = core.element("span", { class: "tone-muted" });
      const buttons = core.element("span", { class: "reading-buttons" });
      panel.body.replaceChildren(core.element("div", { class: "reading" }, bar, state, parts, about), buttons);
      let can = "";
      let ended = false;
      const show = (data) => {
        if (state.textContent !== data.state) state.textContent = data.state;
        state.className = `tone-${data.tone.toLowerCase()}`;
        bar.hidden = data.done === null;
        if (data.done !== null) bar.value = data.done;
        parts.replaceChildren(...data.parts.map(([text, tone]) => core.element("span", { class: `tone-${tone.toLowerCase()}` }, text)));
        about.textContent = data.about;
        if (data.can.join() === can) return;
        can = data.can.join();
        const focused = buttons.contains(document.activeElement);
        buttons.replaceChildren(...data.can.map((name) => button(LABELS[name], { class: "quiet" },
          () => step(name === "next" ? "resume" : name, panel.options, panel.spec.cluster))));
        if (focused) buttons.querySelector("button")?.focus();
      };
      const view = core.simple(panel, show, () => false);
      return {
        ended: () => ended || panel.stateElement.dataset.state === "error",
        close() {
          ended = true;
          view.close();
          step("leave", panel.options, panel.spec.cluster);
          panel.body.replaceChildren();
        },
      };
    },
  };

  document.addEventListener("dashboard-done", (event) => {
    if (!["produce-record", "reproduce-records"].includes(event.detail.act)) return;
    const panel = [...core.panels()].find((each) => each.spec.kind === "reading");
    if (panel !== undefined && !panel.options.live) again();
  });

  // One record.

  let dialog = null;
  let shown = null;   // {table, cluster, topic, id, subscription}

  const closeRecord = () => {
    if (shown !== null) shown.subscription?.close();
    shown = null;
  };

  const showRecord = (wanted) => {
    if (dialog === null) {
      dialog = core.element("dialog", { class: "dialog record", "aria-labelledby": "record-title" });
      dialog.addEventListener("close", closeRecord);
      dialog.addEventListener("keydown", (event) => {
        if (event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
        if (event.key === "n") move(1);
        if (event.key === "p") move(-1);
      });
      document.body.append(dialog);
    }
    closeRecord();
    shown = wanted;
    const [partition, offset] = wanted.id.split("-");
    const title = core.element("h2", { id: "record-title" }, `${wanted.topic}, partition ${partition}, offset ${offset}`);
    const body = core.element("div", { class: "record-body", tabindex: "0", role: "region", "aria-label": "Contents of the record" }, core.element("p", { role: "status" }, "Loading …"));
    const format = core.element("select", { "aria-label": "Shown as" }, ...FORMATS.map((value) => core.element("option", { value, selected: value === wanted.format }, value)));
    format.addEventListener("change", () => showRecord({ ...wanted, format: format.value, focus: "select" }));
    const here = `/c/${encodeURIComponent(wanted.cluster)}/records?${new URLSearchParams({ topic: wanted.topic, from: offset, partitions: partition })}`;
    const role = core.page().role >= 2 && !core.page().readonly;
    const close = button("Close", { class: "quiet" }, () => dialog.close());
    dialog.replaceChildren(title,
      core.element("div", { class: "record-tools" },
        button("Previous (p)", { class: "quiet" }, () => move(-1)), button("Next (n)", { class: "quiet" }, () => move(1)), format,
        core.element("a", { href: here, class: "link" }, "Read from here"),
        button("Produce again", { class: "quiet", disabled: !role }, () => {
          dialog.close();
          core.act({ act: "reproduce-records", params: { topic: wanted.topic }, rows: [wanted.id] });
        })),
      body, core.element("div", { class: "dialog-buttons" }, close));
    if (!dialog.open) dialog.showModal();
    (wanted.focus ? dialog.querySelector(wanted.focus) : body).focus();
    shown.subscription = core.subscribe(
      { cluster: wanted.cluster, channel: "record", params: { topic: wanted.topic, partition, offset, format: wanted.format } },
      {
        frame(frame) {
          if (frame.error) body.replaceChildren(core.element("p", { class: "problem", role: "alert" }, frame.error));
          else if (frame.data) body.replaceChildren(...contents(frame.data));
        },
        refused(reason) { body.replaceChildren(core.element("p", { class: "problem", role: "alert" }, reason)); },
      },
    );
  };

  const contents = (data) => {
    const facts = data.facts.map(([name, text]) => core.element("div", { class: "fact" }, core.element("dt", {}, name),
      core.element("dd", {}, name === "time" ? core.cellText(text) : text)));
    const part = (title, text, note) => [core.element("h3", {}, title), ...(note ? [core.element("p", { class: "panel-note" }, note)] : []), core.element("pre", {}, text)];
    const headers = data.headers.length ? [core.element("h3", {}, "Headers"), core.element("dl", { class: "record-headers" },
      ...data.headers.flatMap(([name, text]) => [core.element("dt", {}, name), core.element("dd", {}, text)]))] : [];
    const masked = data.masked ? [core.element("p", { class: "panel-note" }, "Parts of this record may be hidden from you.")] : [];
    return [core.element("dl", { class: "facts" }, ...facts), ...masked, ...headers, ...part("Key", data.key, data.key_note), ...part("Value", data.value, data.value_note)];
  };

  const move = (by) => {
    if (shown === null || shown.table === null) return;
    const rows = shown.table.rows();
    const at = rows.findIndex((row) => row.id === shown.id);
    const next = rows[at < 0 ? 0 : at + by];
    if (next !== undefined) showRecord({ ...shown, id: next.id, focus: null });
    else core.toast(by > 0 ? "This is the last record that is loaded." : "This is the first record that is loaded.");
  };

  const ofTable = (table, id) => showRecord({
    table, cluster: table.panel.spec.cluster, topic: table.panel.spec.params.topic, id, format: core.query().get("format") || "auto", focus: null,
  });

  document.addEventListener("dashboard-row", (event) => {
    const { row, table } = event.detail;
    if (table.panel.spec.channel !== "records") return;
    event.preventDefault();
    ofTable(table, row.id);
  });

  // A click on the offset shows the record; with a key for a new tab, it reads from there.
  document.addEventListener("click", (event) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest(".page-records .grid a[href]");
    const panel = link === null ? undefined : core.panelOf(link);
    if (panel === undefined || panel.spec.channel !== "records") return;
    event.preventDefault();
    event.stopPropagation();
    const query = new URL(link.href).searchParams;
    ofTable(panel.view, `${query.get("partitions")}-${query.get("from")}`);
  }, true);

  // Files as keys and values of a record to produce.

  const base64 = async (file) => {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
    return btoa(text);
  };

  document.addEventListener("dashboard-form", (event) => {
    const { act, inputs } = event.detail;
    if (act !== "produce-record") return;
    for (const name of ["key", "value"]) {
      const input = inputs.get(name);
      const kind = inputs.get(`${name}_kind`);
      const file = core.element("input", { type: "file", id: `file-${name}`, "aria-label": `File as ${name}` });
      file.addEventListener("change", async () => {
        const [chosen] = file.files;
        if (chosen === undefined) return;
        if (chosen.size > FILE_BYTES_MAX) {
          core.toast(`${chosen.name} has ${core.size(chosen.size)}; ${core.size(FILE_BYTES_MAX)} are allowed.`);
          file.value = "";
          return;
        }
        input.value = await base64(chosen);
        kind.value = "base64";
      });
      input.after(file);
    }
  });
})();
