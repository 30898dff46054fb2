// Elements, and how values are written. Whatever comes from data becomes text, never markup.
"use strict";
globalThis.lithify = {};
(() => {
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat(9)) {
      if (child !== undefined && child !== null && child !== false) node.append(child);
    }
    return node;
  }
  const make = (tag, attributes, ...children) =>
    fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);

  // Characters that nobody sees, and those that turn the direction of what follows, are written as
  // their numbers: a name looks like no other name, and changes nothing around it.
  const UNSEEN =
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
  const visible = (text) =>
    String(text).replace(UNSEEN, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);
  // What is there of these, into `node`.
  const put = (node, ...children) => fill(node, {}, children);
  const name = (text, tag = "bdi", attributes = {}) => make(tag, attributes, visible(text));

  const whole = new Intl.NumberFormat("en");
  const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));
  function scaled(n, units, step) {
    let at = 0;
    while (Math.abs(n) >= step && at + 1 < units.length) {
      n /= step;
      at += 1;
    }
    return `${at === 0 || n >= 100 ? Math.round(n) : n >= 10 ? n.toFixed(1) : n.toFixed(2)} ${units[at]}`;
  }
  const bytes = (n) =>
    n === null || n === undefined ? "–" : scaled(n, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);
  const share = (part, all) =>
    all > 0 ? `${((100 * part) / all).toFixed(part > 0 && part / all < 0.1 ? 1 : 0)} %` : "–";
  const short = (n) =>
    n < 10000 ? count(n) : scaled(n, ["", "k", "M", "G"], 1000).replace(" ", "");
  const when = (text) => (text ? `${text.slice(0, 10)} ${text.slice(11, 16)}` : "–");
  const time = (text) => (text ? make("time", { datetime: text, title: text }, when(text)) : "–");
  function seconds(s) {
    if (s === null || s === undefined || !Number.isFinite(s)) return "–";
    if (s < 1) return `${Math.round(s * 1000)} ms`;
    if (s < 90) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
    if (s < 5400) return `${Math.round(s / 60)} min`;
    return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${Math.round(s / 86400)} d`;
  }
  const words = (text) => visible(text).replaceAll("_", " ");

  function say(text) {
    document.getElementById("said").textContent = text;
  }

  // columns: {head, cell(row), kind: "number" | "text" | "line", first: true}
  function table(caption, columns, rows, tall = false) {
    const cell = (column, row) =>
      make(
        column.first ? "th" : "td",
        {
          scope: column.first && "row",
          class: column.kind,
        },
        column.cell(row),
      );
    return make(
      "div",
      { class: `scroll ${tall ? "tall" : ""}`, role: "region", tabindex: 0, "aria-label": caption },
      make(
        "table",
        {},
        make("caption", { class: "unseen" }, caption),
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            columns.map((c) => make("th", { scope: "col", class: c.kind }, c.head)),
          ),
        ),
        make(
          "tbody",
          {},
          rows.map((row) =>
            make(
              "tr",
              {},
              columns.map((c) => cell(c, row)),
            ),
          ),
        ),
      ),
    );
  }
  const panel = (title, note, ...children) =>
    make(
      "section",
      { class: "panel" },
      make("header", {}, make("h2", {}, title), note && make("span", { class: "mute" }, note)),
      children,
    );
  const facts = (list) =>
    make(
      "dl",
      { class: "facts" },
      list.map(([label, value, note]) =>
        make(
          "div",
          {},
          make("dt", {}, label),
          make("dd", {}, value, note && make("small", {}, note)),
        ),
      ),
    );
  const badge = (text, tone) => make("span", { class: `badge ${tone ?? ""}` }, words(text));

  function copied(text) {
    const pre = make("pre", {}, make("code", {}, visible(text)));
    if (visible(text) !== text) {
      // What nobody sees would be pasted, too.
      return make("p", { class: "mute" }, "A name has characters that are not shown: type it.");
    }
    const button = make("button", { type: "button", class: "copy" }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        say("Copied");
        button.textContent = "Copied";
      } catch {
        // Not allowed here: it is selected, for the keyboard.
        getSelection().selectAllChildren(pre);
        say("Selected: press Control and C");
      }
    });
    return make("div", { class: "statement" }, pre, button);
  }

  const TONES = {
    candidate: "warn",
    run: "live",
    hot: "warn",
    backing_off: "warn",
    breaker_open: "bad",
    planned: "warn",
    running: "live",
    success: "good",
    done: "good",
    committed: "good",
    failed: "bad",
    error: "bad",
    unsupported: "bad",
    partial: "warn",
    cancelled: "",
    opted_in: "good",
    healthy: "good",
    unhealthy: "bad",
    unreadable: "bad",
    gone: "bad",
    nothing_to_gain: "good",
  };
  const state = (text) => badge(text, TONES[text]);

  Object.assign(lithify, {
    make,
    draw,
    visible,
    put,
    name,
    count,
    bytes,
    share,
    short,
    when,
    time,
    seconds,
    words,
    say,
    table,
    panel,
    facts,
    badge,
    state,
    copied,
  });
})();
