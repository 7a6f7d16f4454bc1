// The dialog of acts: a form, the plan with its command line, the name to type, the report. The server decides (acts.py).
"use strict";

(() => {
  const core = window.dashboard.core;
  let dialog = null;
  let call = null;

  const post = async (path, body) => {
    const response = await fetch(path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
    if (response.status === 401) { window.location.assign("/login"); return { error: "the login has ended" }; }
    const type = response.headers.get("Content-Type") || "";
    return type.startsWith("application/json") ? response.json() : { error: await response.text() };
  };
  core.post = post;

  const ask = async (path, body) => {
    try {
      return await post(path, body);
    } catch (error) {
      return { error: `the dashboard cannot be reached: ${error.message}` };
    }
  };

  const make = () => {
    dialog = core.element("dialog", { class: "dialog", "aria-labelledby": "dialog-title" });
    document.body.append(dialog);
    dialog.addEventListener("cancel", (event) => { if (dialog.dataset.running) event.preventDefault(); });
    dialog.addEventListener("close", () => { dialog.replaceChildren(); call = null; });
  };

  const button = (text, options, run) => {
    const made = core.element("button", { type: "button", ...options }, text);
    made.addEventListener("click", run);
    return made;
  };

  // Replaces the contents of the dialog; the last argument gets the focus.
  const fill = (title, isDestructive, parts, buttons, focus) => {
    dialog.classList.toggle("destructive", isDestructive);
    dialog.replaceChildren(
      core.element("h2", { id: "dialog-title" }, title),
      ...parts.filter((part) => part !== null),
      core.element("div", { class: "dialog-buttons" }, ...buttons),
    );
    if (!dialog.open) dialog.showModal();
    if (focus) focus.focus();
  };

  const cancel = (text = "Cancel") => button(text, { class: "quiet" }, () => dialog.close());
  const problem = (text) => core.element("p", { class: "problem", role: "alert" }, text);

  const showError = (title, text) => {
    const close = cancel("Close");
    fill(title, false, [problem(text)], [close], close);
  };

  const showForm = (form, texts = {}, problems = {}, error = "") => {
    const inputs = new Map();
    const fields = form.fields.map((field) => {
      const id = `field-${field.name}`;
      const value = texts[field.name] ?? field.value;
      let input;
      if (field.choices.length) {
        input = core.element("select", { id, name: field.name }, ...field.choices.map((choice) => core.element("option", { value: choice, selected: choice === value }, choice)));
      } else if (field.long || ["value", "key", "settings", "headers"].includes(field.name)) {
        input = core.element("textarea", { id, name: field.name, rows: field.long ? 12 : field.name === "value" ? 5 : 1, spellcheck: "false" });
        input.value = value;
      } else {
        input = core.element("input", { id, name: field.name, type: field.secret ? "password" : "text", autocomplete: field.secret ? "new-password" : "off", spellcheck: "false" });
        input.value = value;
      }
      const found = problems[field.name];
      const hint = [field.hint, field.time ? `a time without a zone is in ${core.zone()}` : ""].filter(Boolean).join("; ");
      const described = [hint ? `${id}-hint` : "", found ? `${id}-problem` : ""].filter(Boolean).join(" ");
      if (described) input.setAttribute("aria-describedby", described);
      if (found) input.setAttribute("aria-invalid", "true");
      inputs.set(field.name, input);
      return core.element("div", { class: "field" },
        core.element("label", { for: id }, field.label), input,
        hint ? core.element("span", { class: "hint", id: `${id}-hint` }, hint) : null,
        found ? core.element("span", { class: "problem", id: `${id}-problem` }, found) : null);
    });
    const submit = core.element("button", { type: "submit", form: "act-form" }, form.verb);
    const formElement = core.element("form", { id: "act-form", novalidate: true }, ...fields);
    formElement.addEventListener("submit", async (event) => {
      event.preventDefault();
      const values = Object.fromEntries([...inputs].map(([name, input]) => [name, input.value]));
      submit.disabled = true;
      const asked = call;
      const isTime = (field) => field.time && (field.timeIf === null || values[field.timeIf[0]] === field.timeIf[1]);
      const sent = { ...values };
      for (const field of form.fields) if (isTime(field)) sent[field.name] = core.withZone(values[field.name]);
      const answer = await ask("/act/plan", { ...call, values: sent });
      if (asked !== call) return;
      submit.disabled = false;
      if (answer.plan) showPlan(answer.plan, () => showForm(form, values));
      else showForm(form, values, answer.problems || {}, answer.error || "");
    });
    const first = inputs.get(Object.keys(problems)[0]) || inputs.values().next().value;
    fill(form.title, false, [form.note ? core.element("p", { class: "note" }, form.note) : null, formElement, error ? problem(error) : null],
      [cancel(), submit], first);
    // For scripts that add to the form, such as the choice of a file.
    dialog.dispatchEvent(new CustomEvent("dashboard-form", { bubbles: true, detail: { act: call.act, inputs } }));
  };

  const copied = (text) => button("Copy", { class: "quiet" }, async (event) => {
    await navigator.clipboard.writeText(text);
    event.target.textContent = "Copied";
  });

  const showPlan = (plan, back) => {
    const run = button(plan.verb, { class: plan.destructive ? "destructive" : "" }, () => execute(plan, typed ? typed.value : null));
    run.disabled = plan.typed !== null || plan.problem !== "";
    let typed = null;
    const parts = [core.element("p", { class: "affected" }, plan.affected)];
    if (plan.changes.length) {
      const lines = plan.more ? [...plan.changes, `… and ${core.count(plan.more)} more`] : plan.changes;
      parts.push(core.element("ul", { class: "changes", tabindex: "0", "aria-label": "Changes" }, ...lines.map((line) => core.element("li", {}, line))));
    }
    if (plan.command) parts.push(core.element("div", { class: "command" }, core.element("code", {}, plan.command), copied(plan.command)));
    if (plan.typed !== null && plan.problem === "") {
      typed = core.element("input", { id: "typed", type: "text", autocomplete: "off", spellcheck: "false" });
      typed.addEventListener("input", () => { run.disabled = typed.value !== plan.typed; });
      typed.addEventListener("keydown", (event) => { if (event.key === "Enter" && !run.disabled) run.click(); });
      parts.push(core.element("div", { class: "field" }, core.element("label", { for: "typed" }, `Type ${plan.typed} to confirm`), typed));
    }
    if (plan.problem) parts.push(problem(plan.problem));
    const stop = cancel();
    fill(plan.title, plan.destructive, parts, [back ? button("Back", { class: "quiet" }, back) : null, stop, run].filter(Boolean), typed || stop);
  };

  const execute = async (plan, typed) => {
    dialog.dataset.running = "1";
    for (const each of dialog.querySelectorAll("button")) each.disabled = true;
    dialog.append(core.element("p", { role: "status", class: "note" }, "Running …"));
    const answer = await ask("/act/execute", { plan: plan.id, typed });
    delete dialog.dataset.running;
    const after = call && call.after;
    const act = call && call.act;
    if (answer.error) { showError(plan.title, answer.error); return; }
    if (answer.problem) {
      const close = cancel("Close");
      fill(plan.title, true, [
        answer.said ? core.element("p", {}, answer.said) : null, problem(answer.problem),
        answer.failed.length > 1 ? core.element("ul", { class: "changes" }, ...answer.failed.map((line) => core.element("li", {}, line))) : null,
      ], [close], close);
      return;
    }
    core.clearMarks();
    if (answer.revealed) showRevealed(plan.title, answer.said, answer.revealed);
    else dialog.close();
    toast(answer.said);
    core.refresh();
    document.dispatchEvent(new CustomEvent("dashboard-done", { detail: { act } }));
    if (after) core.go(after);
  };

  // A secret that the act created. It is shown only in the dialog, until that is closed.
  const showRevealed = (title, said, revealed) => {
    const copy = copied(revealed.value);
    fill(title, false, [
      core.element("p", { class: "affected" }, said),
      core.element("p", { class: "note" }, `${revealed.what}. It is not shown again.`),
      core.element("div", { class: "command revealed" }, core.element("code", {}, revealed.value), copy),
      // The focus is not on Close: a second press of enter must not close it.
    ], [cancel("Close")], copy);
  };

  const toast = (text) => {
    let place = document.querySelector(".toasts");
    if (place === null) {
      place = core.element("div", { class: "toasts", role: "status", "aria-live": "polite" });
      document.body.append(place);
    }
    const made = core.element("div", { class: "toast" }, text);
    place.append(made);
    setTimeout(() => made.remove(), 8000);
  };
  core.toast = toast;

  // Opens an act: {act, params, rows, after}. `after` is the path to open after the execution.
  core.act = async (wanted) => {
    if (dialog === null) make();
    const page = core.page();
    call = { cluster: page.cluster, act: wanted.act, params: wanted.params || {}, rows: wanted.rows || [], after: wanted.after };
    const asked = call;
    const answer = await ask("/act/open", call);
    if (asked !== call) return;
    if (answer.form) showForm(answer.form);
    else if (answer.plan) showPlan(answer.plan, null);
    else showError("This cannot be done", answer.error || "no answer");
  };

  document.addEventListener("click", (event) => {
    const element = event.target.closest("[data-act]");
    if (element === null || element.disabled) return;
    const { act, params } = JSON.parse(element.dataset.act);
    const { after, rows, ...rest } = params;
    const marked = rows === "marked" ? core.marked(element) : [];
    if (rows === "marked" && marked.length === 0) {
      toast("Mark rows first: with their checkboxes, or with the space bar.");
      return;
    }
    core.act({ act, params: rest, rows: marked, after });
  });
})();
