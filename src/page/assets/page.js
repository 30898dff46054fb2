// Which view is shown, by the part of the address after "#", and what is around it.
"use strict";
(() => {
  const { make, name, visible, say, written } = lithify;
  const content = document.getElementById("content");

  const views = written ? lithify.writtenViews[written.kind] : lithify.serverViews;
  const items = written ? lithify.writtenItems[written.kind] : { table: lithify.oneTable };
  if (written) lithify.prepare[written.kind]();

  // --- theme --------------------------------------------------------------------------------------

  const THEMES = ["system", "light", "dark"];
  const themeButton = document.getElementById("theme");
  let theme = "system";
  try {
    theme = localStorage.getItem("lithify-theme") ?? theme;
  } catch {
    /* No storage here. */
  }
  function setTheme(wanted) {
    theme = THEMES.includes(wanted) ? wanted : "system";
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    themeButton.textContent = `Theme: ${theme}`;
  }
  setTheme(theme);
  themeButton.addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
    try {
      localStorage.setItem("lithify-theme", theme);
    } catch {
      /* It holds for this page. */
    }
  });

  // --- views --------------------------------------------------------------------------------------

  // The list that one of its items belongs to.
  const PARENTS = { table: "tables", seen: "tables", partition: "partitions" };

  let leaving = new AbortController();

  function askForToken(error) {
    const input = make("input", {
      type: "password",
      id: "token",
      autocomplete: "off",
      spellcheck: "false",
      required: true,
      "aria-describedby": "token-note",
    });
    const form = make(
      "form",
      { class: "token panel" },
      make("h1", {}, "Who are you?"),
      make(
        "p",
        { id: "token-note", class: "mute" },
        "This page shows what the catalog lets you see. Your token goes to the server with each request, is kept in the memory of this page only, and is gone when the page is.",
      ),
      error && make("p", { class: "notice bad" }, visible(error)),
      make("label", { for: "token" }, "Bearer token"),
      make("div", {}, input, make("button", { class: "main", type: "submit" }, "Show")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      lithify.setToken(input.value);
      lithify.forget();
      form.replaceChildren();
      begin();
    });
    content.replaceChildren(form);
    document.title = "lithify";
    input.focus();
  }

  let tried = false;
  lithify.failed = (error) => {
    if (error.name === "AbortError") return;
    if (error.status === 401) {
      askForToken(tried ? error.message : "");
      tried = true;
      return;
    }
    content.replaceChildren(
      make("h1", {}, "This cannot be shown"),
      make(
        "div",
        { class: "notice bad", role: "alert" },
        make("p", {}, visible(error.message)),
        error.hint && make("p", { class: "mute" }, visible(error.hint)),
      ),
      make("p", {}, make("button", { type: "button", onclick: () => show() }, "Try again")),
    );
  };

  function parse() {
    const parts = location.hash
      .replace(/^#\/?/, "")
      .split("/")
      .filter((part) => part !== "");
    try {
      return parts.map(decodeURIComponent);
    } catch {
      return [];
    }
  }

  async function show(moved) {
    leaving.abort();
    leaving = new AbortController();
    const { signal } = leaving;
    const [first, ...rest] = parse();
    const item = first !== undefined && Object.hasOwn(items, first) && rest.length > 0;
    const view = item
      ? first
      : first !== undefined && Object.hasOwn(views, first)
        ? first
        : Object.keys(views)[0];
    const title = `${view[0].toUpperCase()}${view.slice(1)}`;
    for (const link of document.querySelectorAll("#views a")) {
      if (link.dataset.view === (item ? PARENTS[first] : view))
        link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${title} – lithify`;
    const draft = document.createElement("div");
    if (moved) content.replaceChildren(make("p", { class: "mute" }, "Loading…"));
    try {
      const done = (item ? items[first] : views[view])(draft, rest, signal);
      if (done instanceof Promise) await done;
      if (signal.aborted) return;
      content.replaceChildren(...draft.childNodes);
      if (moved) {
        scrollTo(0, 0);
        content.focus({ preventScroll: true });
        say(document.title);
      }
    } catch (error) {
      if (!signal.aborted) lithify.failed(error);
    }
  }

  async function begin() {
    const foot = document.getElementById("foot");
    const nav = document.getElementById("views");
    const links = () =>
      nav.replaceChildren(
        ...Object.keys(views).map((view) =>
          make(
            "a",
            { href: `#/${view}`, "data-view": view },
            `${view[0].toUpperCase()}${view.slice(1)}`,
          ),
        ),
      );
    if (written) {
      links();
      foot.replaceChildren(
        make("span", {}, `Written ${lithify.when(written.made)} UTC`),
        make("span", {}, visible(written.program)),
      );
      return show(false);
    }
    try {
      const server = await lithify.get("server");
      links();
      document
        .getElementById("who")
        .replaceChildren(
          server.caller.name === "unknown" ? "with a token" : name(server.caller.name),
        );
      foot.replaceChildren(
        make("span", {}, `${visible(server.program)} ${visible(server.version)}`),
        make("span", {}, `Audit log: ${visible(server.audit.state)}`),
        make("span", {}, make("a", { href: "openapi.yaml" }, "API")),
      );
      tried = true;
      return show(false);
    } catch (error) {
      return lithify.failed(error);
    }
  }

  addEventListener("hashchange", () => show(true));
  begin();
})();
