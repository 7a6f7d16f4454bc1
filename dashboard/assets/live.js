// One WebSocket for a tab: subscribes the panels that are in the page, and hands frames to their renderers.
// The protocol is described in live/socket.py and collector/frames.py.
"use strict";

(() => {
  const core = window.dashboard.core;
  const RETRY_MS = [250, 500, 1000, 2000, 5000];
  const STALE_MS = 15000;
  const LOGIN_CHECK_MS = 5000;
  // Codes with which the dashboard ends a connection (RFC 6455, section 7.4.1).
  const POLICY = 1008;
  const TOO_BIG = 1009;

  let socket = null;
  let attempts = 0;
  let ended = "";
  let skew = 0;
  let dropped = 0;
  let nextId = 0;
  const subscriptions = new Map();   // id -> {spec, handlers, key, state}
  const byKey = new Map();           // key -> Set of ids

  const send = (message) => {
    if (socket !== null && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };

  const ask = (id) => {
    const { cluster, channel, params } = subscriptions.get(id).spec;
    send({ subscribe: { id, cluster, channel, params } });
  };

  const forget = (id) => {
    const subscription = subscriptions.get(id);
    const ids = byKey.get(subscription.key);
    if (ids !== undefined) {
      ids.delete(id);
      if (ids.size === 0) byKey.delete(subscription.key);
    }
    subscription.key = null;
    subscription.state = null;
  };

  // Returns the state behind a patch (collector/patches.py). Unchanged parts are the same objects as before.
  const patched = (state, patch) => {
    const { rows, cells, facts, drop, t, v, ...rest } = patch;
    const next = { ...state, ...rest };
    if (cells !== undefined) {
      next.rows = [...state.rows];
      for (const [number, row] of Object.entries(rows)) next.rows[number] = row;
      for (const [number, changed] of Object.entries(cells)) {
        const row = { ...next.rows[number], cells: [...next.rows[number].cells] };
        for (const [column, cell] of Object.entries(changed)) row.cells[column] = cell;
        next.rows[number] = row;
      }
    }
    if (facts !== undefined) {
      next.facts = [...state.facts];
      for (const [number, fact] of Object.entries(facts)) next.facts[number] = fact;
    }
    if (t !== undefined) {
      next.t = [...state.t.slice(drop), ...t];
      next.v = state.v.map((values, number) => [...values.slice(drop), ...v[number]]);
    }
    return next;
  };

  // handlers: frame(frame, skew of the clocks in ms), refused(reason). A frame always has the whole state, as `data`; it is
  // only read. Returns an object with change(params) and close().
  const subscribe = (spec, handlers) => {
    const id = `s${++nextId}`;
    subscriptions.set(id, { spec, handlers, key: null, state: null });
    ask(id);
    return {
      change(params) {
        forget(id);
        subscriptions.get(id).spec = { ...spec, params };
        ask(id);
      },
      close() {
        forget(id);
        subscriptions.delete(id);
        send({ unsubscribe: id });
      },
    };
  };

  const take = (message) => {
    if (message.key !== undefined && message.subscribed !== undefined) {
      const subscription = subscriptions.get(message.subscribed);
      if (subscription === undefined) return;
      forget(message.subscribed);
      subscription.key = message.key;
      if (!byKey.has(message.key)) byKey.set(message.key, new Set());
      byKey.get(message.key).add(message.subscribed);
    } else if (message.key !== undefined) {
      for (const id of byKey.get(message.key) || []) {
        const subscription = subscriptions.get(id);
        // This patch is for a panel without data: its whole state follows.
        if (message.patch !== undefined && subscription.state === null) continue;
        try {
          subscription.state = message.patch === undefined ? message.data : patched(subscription.state, message.patch);
          subscription.handlers.frame({ ...message, data: subscription.state }, skew);
        } catch (error) {
          console.error(error);
        }
      }
    } else if (message.refused !== undefined) {
      subscriptions.get(message.refused)?.handlers.refused(message.reason);
    } else if (message.hello !== undefined) {
      skew = Date.now() - message.hello.at_ms;
    } else if (message.dropped !== undefined) {
      dropped = message.dropped;
      tell();
    }
  };

  // Whether the server answers that a login is needed. A browser does not report why a connection failed: the dashboard
  // may be down, or may refuse it.
  const loginEnded = async () => {
    try {
      const answer = await fetch(window.location.pathname, {
        headers: { Accept: "text/html" }, cache: "no-store", signal: AbortSignal.timeout(LOGIN_CHECK_MS),
      });
      return answer.status === 401 || (answer.redirected && new URL(answer.url).pathname === "/login");
    } catch {
      return false;
    }
  };

  const connect = () => {
    let wasOpened = false;
    const scheme = window.location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${scheme}://${window.location.host}/live`);
    socket.onopen = () => {
      wasOpened = true;
      attempts = 0;
      if (document.hidden) send({ pause: true });
      for (const id of subscriptions.keys()) ask(id);
      tell();
    };
    socket.onmessage = (event) => { for (const line of event.data.split("\n")) take(JSON.parse(line)); };
    socket.onclose = async (event) => {
      for (const id of subscriptions.keys()) forget(id);
      tell();
      // The login has expired: the guard answers with the login page, which returns to this page.
      if ((event.code === POLICY || !wasOpened) && await loginEnded()) {
        window.location.reload();
        return;
      }
      // The same request would be refused again.
      if (event.code === POLICY || event.code === TOO_BIG) {
        ended = `not live: ${event.reason || "the dashboard refused a message of this page"}; load the page again to go on`;
        core.toast(ended);
        tell();
        return;
      }
      setTimeout(connect, RETRY_MS[Math.min(attempts++, RETRY_MS.length - 1)]);
    };
  };

  // The state of the connection, beside the account.
  const tell = () => {
    const open = socket !== null && socket.readyState === WebSocket.OPEN;
    for (const place of document.querySelectorAll("[data-live]")) {
      const text = open ? (dropped ? `live, ${core.count(dropped)} update${dropped === 1 ? "" : "s"} skipped` : "live") : ended || "reconnecting …";
      if (place.textContent !== text) place.textContent = text;
      place.classList.toggle("off", !open);
    }
  };

  // Panels.

  const panels = new Map();   // element -> panel

  class Panel {
    constructor(element) {
      this.element = element;
      this.spec = JSON.parse(element.dataset.panel);
      this.options = this.spec.options;
      this.body = element.querySelector("[data-body]");
      this.stateElement = element.querySelector("[data-state]");
      this.ageElement = element.querySelector("[data-age]");
      this.answeredAt = null;
      this.error = "";
      this.setState("loading", "Loading …");
      this.view = core.renderers[this.spec.kind].create(this);
    }

    // For renderers: subscribe with other parameters than those of the page.
    subscribe(params, handlers) {
      return subscribe({ cluster: this.spec.cluster, channel: this.spec.channel, params }, handlers);
    }

    setState(state, text) {
      if (this.stateElement.dataset.state !== state || this.stateElement.textContent !== text) {
        this.stateElement.dataset.state = state;
        this.stateElement.textContent = text;
        core.checkActs?.();
      }
    }

    // Shows the parts of a frame that every kind of panel has besides its data. `isEmpty`: the data has no entries.
    note(frame, isEmpty) {
      this.error = frame.error;
      this.answeredAt = frame.age_ms === null ? null : frame.at_ms + skew - frame.age_ms;
      const has = frame.data !== null;
      if (frame.absent) this.setState("absent", frame.error);
      else if (frame.error) this.setState(has && !isEmpty ? "stale" : "error", frame.error);
      else if (!has) this.setState("loading", "Loading …");
      else if (isEmpty) this.setState("empty", this.spec.empty);
      else this.setState("ok", "");
      this.body.hidden = !has || isEmpty;
      this.showAge();
    }

    showAge() {
      let text = "";
      let stale = false;
      if (this.answeredAt !== null) {
        const age = Date.now() - this.answeredAt;
        stale = age > STALE_MS || this.error !== "";
        text = age >= 2500 ? core.duration(age) + " ago" : "now";
      }
      if (this.ageElement.textContent !== text) this.ageElement.textContent = text;
      this.ageElement.classList.toggle("stale", stale);
    }

    refused(reason) {
      this.error = reason;
      this.body.hidden = true;
      this.setState("error", reason);
    }

    close() {
      this.view.close();
    }
  }

  const scan = () => {
    for (const [element, panel] of panels) {
      if (!element.isConnected) {
        panel.close();
        panels.delete(element);
      }
    }
    for (const element of document.querySelectorAll("[data-panel]")) {
      const known = panels.get(element);
      // Dash reuses elements of the previous page: an element with another channel is another panel.
      if (known !== undefined && known.json === element.dataset.panel) continue;
      if (known !== undefined) known.close();
      const panel = new Panel(element);
      panel.json = element.dataset.panel;
      panels.set(element, panel);
    }
    tell();
  };

  const start = () => {
    connect();
    new MutationObserver(scan).observe(document.body, {
      childList: true, subtree: true, attributes: true, attributeFilter: ["data-panel"],
    });
    scan();
    setInterval(() => { for (const panel of panels.values()) panel.showAge(); }, 1000);
    // Times are written again in the zone that was chosen (zone.js).
    document.addEventListener("dashboard-zone", () => { for (const panel of panels.values()) panel.view.redraw?.(); });
    document.addEventListener("visibilitychange", () => send({ pause: document.hidden }));
    window.addEventListener("keydown", (event) => {
      if (event.key === "r" && event.altKey) send({ refresh: true });
    });
  };

  // A view of one subscription that shows states.
  core.simple = (panel, show, isEmpty) => {
    let state = null;
    const subscription = panel.subscribe(panel.spec.params, {
      frame(frame) {
        state = frame.data;
        panel.note(frame, state !== null && isEmpty(state));
        if (state !== null && !panel.body.hidden) show(state);
      },
      refused(reason) { panel.refused(reason); },
    });
    return {
      close() { subscription.close(); },
      change(params) { subscription.change(params); },
      redraw() { if (state !== null && !panel.body.hidden) show(state); },
    };
  };

  core.refresh = () => send({ refresh: true });
  core.subscribe = subscribe;
  core.panelOf = (element) => panels.get(element.closest("[data-panel]"));
  core.panels = () => panels.values();
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
