// A list of any number of rows: only those in sight exist as elements. For screen readers it is a
// grid that tells how many rows there are; by keyboard one row is reached with Tab and the others
// from it with arrows, Page Up and Down, Home and End.
"use strict";
(() => {
  const { make, count } = lithify;
  const OVERSCAN = 8;

  // columns: {key, head, value(row), cell(row), width, narrow, number}; the first has the row's link.
  // search(row): lower-case text. Sorting starts with `sort`: {key, down}.
  class Grid {
    constructor({ label, columns, sort, search, where }) {
      this.columns = columns;
      this.sort = sort;
      this.search = search;
      this.rows = [];
      this.shown = [];
      this.query = "";
      this.where = where;
      this.keep = () => true;
      this.active = 0;
      this.chosen = false;
      this.narrow = matchMedia("(max-width: 48rem)");
      this.space = make("div", { class: "space", role: "presentation" });
      this.body = make("div", { class: "body", role: "rowgroup" }, this.space);
      this.heads = make("div", { class: "row heads", role: "row", "aria-rowindex": 1 });
      this.element = make(
        "div",
        { class: "grid", role: "grid", "aria-label": label },
        make("div", { role: "rowgroup" }, this.heads),
        this.body,
      );
      this.count = make("span", { class: "count" });
      this.tools = make(
        "div",
        { class: "tools" },
        make("input", {
          type: "search",
          "aria-label": `Search ${where}`,
          placeholder: `Search ${where}`,
          spellcheck: "false",
          autocomplete: "off",
          oninput: (event) => {
            this.query = event.target.value.toLowerCase();
            this.#reset();
          },
        }),
      );
      this.body.addEventListener("scroll", () => this.#draw());
      this.element.addEventListener("keydown", (event) => this.#key(event));
      this.body.addEventListener("focusin", (event) => {
        const row = event.target.closest("[data-at]");
        if (row) this.#activate(Number(row.dataset.at), false);
      });
      this.narrow.addEventListener("change", () => this.#layout());
      new ResizeObserver(() => this.#draw()).observe(this.body);
      addEventListener("beforeprint", () => this.#draw(0, 500));
      addEventListener("afterprint", () => this.#draw());
      this.#layout();
    }

    set(rows) {
      this.rows = rows;
      this.refresh();
    }
    filter(keep) {
      this.keep = keep;
      this.#reset();
    }
    // After rows changed: a row that somebody went to stays the one that Tab reaches.
    refresh() {
      const active = this.chosen ? this.shown[this.active] : undefined;
      this.#arrange();
      const at = active ? this.shown.indexOf(active) : 0;
      this.active = Math.max(0, at);
      this.#draw();
    }

    #reset() {
      this.#arrange();
      this.active = 0;
      this.chosen = false;
      this.body.scrollTop = 0;
      this.#draw();
      clearTimeout(this.saying);
      this.saying = setTimeout(
        () => lithify.say(`${count(this.shown.length)} of ${count(this.rows.length)} shown`),
        600,
      );
    }
    #arrange() {
      const parts = this.query.split(/\s+/).filter(Boolean);
      this.shown = this.rows.filter(
        (row) => this.keep(row) && parts.every((part) => this.search(row).includes(part)),
      );
      const column = this.columns.find((c) => c.key === this.sort.key);
      const way = this.sort.down ? -1 : 1;
      // What is not known comes last, whichever way.
      this.shown.sort((a, b) => {
        const x = column.value(a),
          y = column.value(b);
        const none = (x ?? null) === null,
          other = (y ?? null) === null;
        if (none || other) return none - other;
        return x < y ? -way : x > y ? way : 0;
      });
      this.element.setAttribute("aria-rowcount", this.shown.length + 1);
      this.count.textContent =
        this.shown.length === this.rows.length
          ? `${count(this.rows.length)} ${this.rows.length === 1 ? this.where.slice(0, -1) : this.where}`
          : `${count(this.shown.length)} of ${count(this.rows.length)}`;
    }
    #layout() {
      this.visible = this.columns.filter((c) => c.narrow || !this.narrow.matches);
      this.element.style.setProperty("--widths", this.visible.map((c) => c.width).join(" "));
      this.element.setAttribute("aria-colcount", this.visible.length);
      this.heads.replaceChildren(
        ...this.visible.map((c) =>
          make(
            "div",
            {
              role: "columnheader",
              class: `cell ${c.number ? "number" : ""}`,
              "aria-sort": this.sort.key === c.key && (this.sort.down ? "descending" : "ascending"),
            },
            make(
              "button",
              { type: "button", "data-key": c.key, onclick: () => this.#sortBy(c) },
              c.head,
              this.sort.key === c.key &&
                make("span", { "aria-hidden": "true" }, this.sort.down ? " ↓" : " ↑"),
            ),
          ),
        ),
      );
      this.#arrange();
      this.#draw();
    }
    #sortBy(column) {
      this.sort = {
        key: column.key,
        down: this.sort.key === column.key ? !this.sort.down : Boolean(column.number),
      };
      this.#layout();
      this.#reset();
      this.heads.querySelector(`[data-key="${column.key}"]`)?.focus();
    }
    #height() {
      return this.narrow.matches ? 3 * this.#rem() : 2.125 * this.#rem();
    }
    #rem() {
      return parseFloat(getComputedStyle(document.documentElement).fontSize);
    }

    #draw(from, to) {
      const height = this.#height();
      this.space.style.height = `${this.shown.length * height}px`;
      this.element.style.setProperty("--tall", `${this.shown.length * height + 2}px`);
      const first = from ?? Math.max(0, Math.floor(this.body.scrollTop / height) - OVERSCAN);
      const last = Math.min(
        this.shown.length,
        to ?? Math.ceil((this.body.scrollTop + this.body.clientHeight) / height) + OVERSCAN,
      );
      const focused = this.body.contains(document.activeElement);
      const wanted = [];
      for (let at = first; at < last; ++at) wanted.push(at);
      // The one that Tab reaches is there wherever one has scrolled to.
      if (this.active < this.shown.length && (this.active < first || this.active >= last))
        wanted.push(this.active);
      wanted.sort((a, b) => a - b);
      this.space.replaceChildren(...wanted.map((at) => this.#row(at, height)));
      if (focused)
        this.space.querySelector(`[data-at="${this.active}"] a`)?.focus({ preventScroll: true });
    }
    #row(at, height) {
      const row = this.shown[at];
      const element = make(
        "div",
        { class: "row", role: "row", "aria-rowindex": at + 2, "data-at": at },
        this.visible.map((c, i) =>
          make(
            "div",
            {
              class: `cell ${c.number ? "number" : ""} ${i === 0 ? "name" : ""}`,
              role: i === 0 ? "rowheader" : "gridcell",
            },
            c.cell(row),
          ),
        ),
      );
      element.style.top = `${at * height}px`;
      const link = element.querySelector("a");
      if (link) link.tabIndex = at === this.active ? 0 : -1;
      return element;
    }
    #activate(at, scroll) {
      const before = this.space.querySelector(`[data-at="${this.active}"] a`);
      if (before) before.tabIndex = -1;
      this.active = at;
      this.chosen = true;
      if (scroll) {
        const height = this.#height();
        const top = at * height;
        if (top < this.body.scrollTop) this.body.scrollTop = top;
        if (top + height > this.body.scrollTop + this.body.clientHeight)
          this.body.scrollTop = top + height - this.body.clientHeight;
        this.#draw();
      }
      const link = this.space.querySelector(`[data-at="${at}"] a`);
      if (!link) return;
      link.tabIndex = 0;
      if (scroll) link.focus({ preventScroll: true });
    }
    #key(event) {
      if (!this.body.contains(event.target) || event.altKey || event.ctrlKey || event.metaKey)
        return;
      const page = Math.max(1, Math.floor(this.body.clientHeight / this.#height()) - 1);
      const steps = {
        ArrowDown: 1,
        ArrowUp: -1,
        PageDown: page,
        PageUp: -page,
        Home: -Infinity,
        End: Infinity,
      };
      if (!(event.key in steps)) return;
      event.preventDefault();
      this.#activate(
        Math.min(this.shown.length - 1, Math.max(0, this.active + steps[event.key])),
        true,
      );
    }
  }
  lithify.Grid = Grid;
})();
