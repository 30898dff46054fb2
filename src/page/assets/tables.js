// Tables: all of them by debt, one of them, jobs, the plan, the server.
"use strict";
(() => {
  const {
    make,
    visible,
    put,
    name,
    count,
    bytes,
    share,
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
    get,
  } = lithify;

  const full = (t) => [t.catalog, ...t.namespace, t.name].join(".");
  const address = (t) =>
    `#/table/${[t.catalog, ...t.namespace, t.name].map(encodeURIComponent).join("/")}`;
  const link = (t) => make("a", { href: address(t), title: visible(full(t)) }, name(t.name));
  const optedIn = (t) =>
    t.opted_in === undefined
      ? badge("…")
      : t.opted_in
        ? badge("opted in", "good")
        : badge("not opted in");

  // --- all tables ---------------------------------------------------------------------------------

  const fleet = {
    round: 0, // Of answers: those to earlier questions are dropped.
    unlisted: [],
    rows: null,
    asked: 0,
    wanted: 0,
    errors: [],
    shown: () => {},
    most: 1,
  };

  const BATCH = 500;
  const AT_ONCE = 3;
  const TRIES = 3;

  async function load() {
    Object.assign(fleet, { rows: [], asked: 0, wanted: 0, errors: [], unlisted: [], most: 1 });
    const round = ++fleet.round;
    const listed = await get("tables");
    if (round !== fleet.round) return;
    fleet.unlisted = listed.unlisted;
    await add(listed.namespaces, round);
  }

  // One that the catalog does not list for this caller, and may show all the same.
  async function open(catalog, parts) {
    const { round } = fleet;
    const listed = await get("tables", { catalog, namespace: parts });
    if (round !== fleet.round) return;
    const known = (group) =>
      fleet.rows.some(
        (row) =>
          row.catalog === group.catalog &&
          JSON.stringify(row.namespace) === JSON.stringify(group.namespace),
      );
    await add(
      listed.namespaces.filter((group) => !known(group)),
      round,
    );
  }

  async function add(namespaces, round) {
    const groups = namespaces.map((group) =>
      group.tables.map((table) => ({
        catalog: group.catalog,
        namespace: group.namespace,
        name: table,
        text: [group.catalog, ...group.namespace, table].join(".").toLowerCase(),
      })),
    );
    for (const group of groups) for (const row of group) fleet.rows.push(row);
    fleet.wanted = fleet.rows.length;
    fleet.shown();
    const waiting = groups.filter((group) => group.length > 0);
    const work = async () => {
      for (let group = waiting.shift(); group; group = waiting.shift()) await measure(group, round);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (round !== fleet.round) return;
    fleet.shown();
    say(`${count(fleet.wanted)} tables loaded`);
  }

  // The tables of one namespace, a batch at a time.
  async function measure(group, round) {
    const byName = new Map(group.map((row) => [row.name, row]));
    let after;
    let tries = 0;
    for (let more = true; more;) {
      let answer;
      try {
        answer = await get("health", {
          catalog: group[0].catalog,
          namespace: group[0].namespace,
          after,
          limit: BATCH,
        });
      } catch (error) {
        if (round !== fleet.round) return;
        if (error.status === 401) throw error;
        if (error.status === 503 && ++tries < TRIES) {
          await new Promise((resolve) => setTimeout(resolve, 1000 * tries));
          continue;
        }
        fleet.errors.push(
          `${visible([group[0].catalog, ...group[0].namespace].join("."))}: ${error.message}`,
        );
        break;
      }
      if (round !== fleet.round) return;
      for (const health of answer.tables) {
        const row = byName.get(health.name);
        if (!row) continue;
        Object.assign(row, health);
        fleet.most = Math.max(fleet.most, health.est_rewrite_bytes ?? 0);
        fleet.asked += 1;
      }
      after = answer.next;
      fleet.shown();
      more = after !== null;
    }
    // Those that went meanwhile, or could not be asked for.
    for (const row of group) {
      if (row.error !== undefined || row.live_data_files !== undefined) continue;
      row.error = "not known";
      fleet.asked += 1;
    }
    fleet.shown();
  }

  function sums(rows) {
    const sum = { files: 0, small: 0, bytes: 0, rewrite: 0, deletes: 0, opted: 0 };
    for (const row of rows) {
      if (row.live_data_files === undefined) continue;
      sum.files += row.live_data_files;
      sum.small += row.small_files;
      sum.bytes += row.total_bytes;
      sum.rewrite += row.est_rewrite_bytes;
      sum.deletes += row.delete_files;
      sum.opted += row.opted_in ? 1 : 0;
    }
    return sum;
  }

  const COLUMNS = [
    {
      key: "name",
      head: "Table",
      width: "minmax(9rem, 2.2fr)",
      narrow: true,
      value: (t) => t.text,
      cell: (t) => [
        link(t),
        make("span", { class: "where" }, " ", name([t.catalog, ...t.namespace].join("."))),
      ],
    },
    {
      key: "debt",
      head: "To rewrite",
      width: "minmax(6.4rem, 1.3fr)",
      narrow: true,
      number: true,
      value: (t) => t.est_rewrite_bytes,
      cell: (t) =>
        t.error
          ? badge(t.error, "bad")
          : make(
              "div",
              { class: "bar" },
              lithify.bar((t.est_rewrite_bytes ?? 0) / fleet.most),
              bytes(t.est_rewrite_bytes),
            ),
    },
    {
      key: "small",
      head: "Small files",
      width: "minmax(5.8rem, 0.7fr)",
      narrow: true,
      number: true,
      value: (t) => t.small_files,
      cell: (t) => count(t.small_files),
    },
    {
      key: "files",
      head: "Files",
      width: "minmax(4.5rem, 0.7fr)",
      number: true,
      value: (t) => t.live_data_files,
      cell: (t) => count(t.live_data_files),
    },
    {
      key: "size",
      head: "Size",
      width: "minmax(5rem, 0.7fr)",
      number: true,
      value: (t) => t.total_bytes,
      cell: (t) => bytes(t.total_bytes),
    },
    {
      key: "average",
      head: "Per file",
      width: "minmax(5rem, 0.7fr)",
      number: true,
      value: (t) => t.avg_file_bytes,
      cell: (t) => bytes(t.avg_file_bytes),
    },
    {
      key: "deletes",
      head: "Delete files",
      width: "minmax(5.6rem, 0.7fr)",
      number: true,
      value: (t) => t.delete_files,
      cell: (t) => count(t.delete_files),
    },
    {
      key: "deleted",
      head: "Deleted",
      width: "minmax(5rem, 0.7fr)",
      number: true,
      value: (t) => t.delete_ratio,
      cell: (t) => (t.delete_ratio === undefined ? "–" : share(t.delete_ratio, 1)),
    },
    {
      key: "in",
      head: "Maintenance",
      width: "minmax(7rem, 0.8fr)",
      value: (t) => (t.opted_in === undefined ? null : t.opted_in ? 0 : 1),
      cell: optedIn,
    },
  ];

  let grid = null;
  function tables(content) {
    const numbers = make("div");
    const problems = make("div");
    grid ??= new lithify.Grid({
      label: "Tables by debt",
      columns: COLUMNS,
      sort: { key: "debt", down: true },
      search: (t) => t.text,
      where: "tables",
    });
    const loaded = make("progress", { "aria-label": "Tables loaded", max: 1, value: 0 });
    const FILTERS = {
      all: () => true,
      "opted in": (t) => t.opted_in === true,
      "not opted in": (t) => t.opted_in === false,
      "with small files": (t) => t.small_files > 0,
      "with delete files": (t) => t.delete_files > 0,
      "not readable": (t) => Boolean(t.error),
    };
    if (!grid.ready) {
      grid.ready = true;
      grid.tools.append(
        make(
          "label",
          {},
          "Show",
          make(
            "select",
            { onchange: (event) => grid.filter(FILTERS[event.target.value]) },
            Object.keys(FILTERS).map((key) => make("option", {}, key)),
          ),
        ),
        make(
          "button",
          { type: "button", onclick: () => load().catch((error) => lithify.failed(error)) },
          "Reload",
        ),
        grid.count,
      );
    }
    let pending = 0;
    const show = () => {
      pending = 0;
      if (fleet.rows === null) return;
      const sum = sums(fleet.rows);
      numbers.replaceChildren(
        facts([
          [
            "Tables",
            count(fleet.wanted),
            fleet.asked < fleet.wanted
              ? `${count(fleet.asked)} looked at`
              : `${count(sum.opted)} opted in`,
          ],
          ["To rewrite", bytes(sum.rewrite), `of ${bytes(sum.bytes)}`],
          [
            "Small files",
            count(sum.small),
            `${share(sum.small, sum.files)} of ${count(sum.files)}`,
          ],
          ["Delete files", count(sum.deletes)],
        ]),
      );
      loaded.hidden = fleet.asked >= fleet.wanted;
      loaded.value = fleet.wanted > 0 ? fleet.asked / fleet.wanted : 0;
      problems.replaceChildren(
        ...(fleet.errors.length === 0
          ? []
          : [
              make(
                "div",
                { class: "notice warn" },
                make(
                  "p",
                  {},
                  `${count(fleet.errors.length)} namespaces could not be read: ${fleet.errors.slice(0, 3).join("; ")}`,
                ),
              ),
            ]),
      );
      opener.hidden = fleet.unlisted.length === 0;
      if (chosen.options.length !== fleet.unlisted.length) {
        chosen.replaceChildren(
          ...fleet.unlisted.map((one) => make("option", { value: one }, visible(one))),
        );
      }
      grid.set(fleet.rows);
    };
    const chosen = make("select", { "aria-label": "Catalog" });
    const wanted = make("input", {
      "aria-label": "Namespace",
      placeholder: "sales.eu",
      autocomplete: "off",
      spellcheck: "false",
      required: true,
    });
    const opener = make(
      "form",
      { class: "notice", hidden: true },
      make(
        "p",
        {},
        "Not every catalog lets you list its namespaces. One whose name you know can be looked into.",
      ),
      make("div", { class: "tools" }, chosen, wanted, make("button", { type: "submit" }, "Look")),
    );
    opener.addEventListener("submit", (event) => {
      event.preventDefault();
      open(chosen.value, wanted.value.trim().split(".")).catch((error) => {
        if (error.status === 401) lithify.failed(error);
        fleet.errors.push(`${visible(wanted.value)}: ${error.message}`);
        fleet.shown();
      });
    });
    fleet.shown = () => {
      if (pending === 0)
        pending = setTimeout(show, fleet.asked < fleet.wanted && fleet.asked > 0 ? 400 : 0);
    };
    const begin = () => load().catch((error) => lithify.failed(error));
    put(
      content,
      make(
        "div",
        { class: "head" },
        make("h1", {}, "Tables"),
        make(
          "span",
          { class: "mute" },
          "those that the catalog lets you see, by what there is to rewrite",
        ),
      ),
      numbers,
      problems,
      opener,
      make("div", { class: "tools" }, grid.tools, loaded),
      grid.element,
    );
    if (fleet.rows === null) begin();
    else show();
  }

  // --- one table ----------------------------------------------------------------------------------

  function gates(list) {
    const tone = { open: "good", closed: "warn", unknown: "" };
    return make(
      "ul",
      { class: "gates" },
      list.map((gate) =>
        make(
          "li",
          {},
          badge(gate.state, tone[gate.state]),
          make(
            "div",
            {},
            make("p", {}, visible(gate.reason)),
            gate.statement && copied(gate.statement),
          ),
        ),
      ),
    );
  }

  const planColumns = (withTable) => [
    ...(withTable ? [{ head: "Table", first: true, cell: withTable }] : []),
    {
      head: "Partition",
      first: !withTable,
      cell: (c) =>
        c.partition ? name(c.partition) : make("span", { class: "mute" }, "whole table"),
    },
    { head: "Verdict", cell: (c) => state(c.verdict), kind: "line" },
    { head: "Decided by", cell: (c) => visible(c.reason), kind: "text" },
    { head: "Rank", cell: (c) => (c.rank ? count(c.rank) : "–"), kind: "number" },
    {
      head: "Score",
      cell: (c) => ((c.score ?? null) === null ? "–" : Number(c.score).toPrecision(3)),
      kind: "number",
    },
    { head: "Files", cell: (c) => `${count(c.files)} → ${count(c.outputs)}`, kind: "number" },
    { head: "Bytes", cell: (c) => bytes(c.bytes), kind: "number" },
    {
      head: "Saves",
      cell: (c) => seconds(c.saved_seconds ?? c.expected_saved_seconds),
      kind: "number",
    },
    { head: "Costs", cell: (c) => seconds(c.compute_seconds), kind: "number" },
  ];

  const logColumns = (withTable) => [
    { head: "Ended", first: true, cell: (j) => time(j.ended), kind: "line" },
    ...(withTable ? [{ head: "Table", cell: withTable }] : []),
    { head: "Status", cell: (j) => state(j.status), kind: "line" },
    { head: "Files", cell: (j) => `${count(j.files_in)} → ${count(j.files_out)}`, kind: "number" },
    { head: "Bytes in", cell: (j) => bytes(j.bytes_in), kind: "number" },
    { head: "Bytes out", cell: (j) => bytes(j.bytes_out), kind: "number" },
    { head: "Rows removed", cell: (j) => count(j.rows_removed), kind: "number" },
    {
      head: "Took",
      cell: (j) => seconds((Date.parse(j.ended) - Date.parse(j.started)) / 1000),
      kind: "number",
    },
    { head: "What happened", cell: (j) => visible(j.error ?? j.reason ?? ""), kind: "text" },
  ];

  function snapshots(list) {
    return table(
      "Snapshots",
      [
        { head: "Committed", first: true, cell: (s) => time(s.committed_at), kind: "line" },
        {
          head: "Operation",
          cell: (s) => [
            visible(s.operation ?? "–"),
            s.is_current && [" ", badge("current", "live")],
          ],
          kind: "line",
        },
        { head: "Snapshot", cell: (s) => s.snapshot_id, kind: "number" },
        { head: "Files", cell: (s) => count(s.total_data_files), kind: "number" },
        { head: "Size", cell: (s) => bytes(s.total_files_size), kind: "number" },
        { head: "Rows", cell: (s) => count(s.total_records), kind: "number" },
        { head: "Delete files", cell: (s) => count(s.total_delete_files), kind: "number" },
        { head: "Refs", cell: (s) => s.refs.map((ref) => name(ref)).flatMap((ref) => [ref, " "]) },
      ],
      list,
      true,
    );
  }

  const LOG = {
    absent:
      "There is no maintenance log in this catalog: the jobs of maintenance are not recorded, or it does not run.",
    hidden: "The catalog does not let you read the maintenance log.",
    failed: "The maintenance log could not be read.",
  };

  async function one(content, parts, signal) {
    const [catalog, ...rest] = parts;
    const t = await get(
      "table",
      { catalog, namespace: rest.slice(0, -1), name: rest[rest.length - 1] },
      signal,
    );
    const h = t.health;
    const debt = t.snapshots
      .filter((s) => s.total_delete_files !== null)
      .map((s) => ({
        time: s.committed_at,
        value: s.total_position_deletes + s.total_equality_deletes,
        marked: s.operation === "replace",
      }))
      .reverse();
    const columns = make(
      "div",
      { class: "columns" },
      panel(
        "Files by size",
        t.histogram ? `${count(h.live_data_files)} live files` : null,
        t.histogram
          ? lithify.histogram(t.histogram)
          : make("p", { class: "empty" }, "The table is empty."),
      ),
      panel(
        "Deleted rows that reads still apply",
        "position and equality deletes, by snapshot",
        debt.length > 0
          ? lithify.overTime("Deleted rows", debt, "Deleted rows")
          : make("p", { class: "empty" }, "No snapshot tells."),
      ),
      make(
        "div",
        { class: "wide" },
        panel("Maintenance", "what is needed before anything runs on its own", gates(t.gates)),
      ),
      make(
        "div",
        { class: "wide" },
        panel(
          "Plan",
          "each candidate, and the number that decided",
          t.plan.length > 0
            ? table("Plan", planColumns(), t.plan)
            : make("p", { class: "empty" }, "There is nothing to do."),
        ),
      ),
      make(
        "div",
        { class: "wide" },
        panel(
          "Last jobs",
          t.log.state === "read" ? "of the maintenance log" : null,
          t.log.rows.length > 0
            ? table("Last jobs", logColumns(), t.log.rows)
            : make(
                "p",
                { class: "empty" },
                LOG[t.log.state] ?? "No job of this table is on record.",
              ),
        ),
      ),
      make(
        "div",
        { class: "wide" },
        panel(
          "Snapshots",
          t.snapshots_total > t.snapshots.length
            ? `the last ${count(t.snapshots.length)} of ${count(t.snapshots_total)}`
            : count(t.snapshots_total),
          snapshots(t.snapshots),
        ),
      ),
    );
    put(
      content,
      make(
        "div",
        { class: "head" },
        make("h1", {}, name(t.name)),
        make("span", { class: "crumb" }, name([t.catalog, ...t.namespace].join("."))),
      ),
      facts([
        ["Files", count(h.live_data_files), `${bytes(h.avg_file_bytes)} on average`],
        ["Size", bytes(h.total_bytes), `${count(h.total_records)} rows`],
        ["Small files", count(h.small_files), share(h.small_files, h.live_data_files)],
        ["To rewrite", bytes(h.est_rewrite_bytes), `${count(h.eligible_groups)} groups`],
        ["Delete files", count(h.delete_files), `${share(h.delete_ratio, 1)} of rows deleted`],
        [
          "Last compaction",
          when(h.last_compaction).slice(0, 10),
          when(h.last_compaction).slice(11),
        ],
      ]),
      columns,
    );
    document.title = `${visible(t.name)} – lithify`;
  }

  // --- jobs, plan, server -------------------------------------------------------------------------

  function jobRow(job) {
    const known = job.bytes_total > 0;
    const part = known ? job.bytes_done / job.bytes_total : undefined;
    const bar =
      job.state === "running" &&
      make(
        "div",
        { class: "progress" },
        make("progress", { "aria-label": "Progress", max: 1, value: part }),
        make(
          "span",
          {},
          known
            ? share(Math.min(job.bytes_done, job.bytes_total), job.bytes_total)
            : count(job.items_done),
        ),
      );
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, visible(job.procedure)),
      make(
        "td",
        { class: "line" },
        job.cancel_requested && job.state === "running"
          ? badge("stopping", "warn")
          : state(job.state),
      ),
      make("td", {}, bar || (known ? bytes(job.bytes_done) : "–")),
      make("td", {}, job.table ? name(job.table) : "–"),
      make("td", { class: "line" }, time(job.started)),
      make(
        "td",
        { class: "number" },
        seconds((Date.parse(job.finished ?? job.now) - Date.parse(job.started)) / 1000),
      ),
      make("td", { class: "text" }, visible(job.error || job.message || "")),
    );
  }

  async function jobs(content, parts, signal) {
    const body = make("tbody");
    const none = make(
      "p",
      { class: "empty" },
      "No job of yours runs, and none ended in the last hour.",
    );
    const caption = "Your jobs";
    const list = make(
      "div",
      { class: "scroll", role: "region", tabindex: 0, "aria-label": caption },
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
            ["Procedure", "State", "Progress", "Table", "Began", "Took", "What it says"].map(
              (head) =>
                make("th", { scope: "col", class: head === "Took" ? "number" : null }, head),
            ),
          ),
        ),
        body,
      ),
    );
    const live = make("input", { type: "checkbox", checked: true });
    put(
      content,
      make(
        "div",
        { class: "head" },
        make("h1", {}, "Jobs"),
        make("span", { class: "mute" }, "that you started, here and elsewhere"),
      ),
      make("div", { class: "tools" }, make("label", {}, live, "Follow")),
      make("section", { class: "panel" }, list, none),
    );
    let running = -1;
    const show = async () => {
      const answer = await get("jobs", {}, signal);
      body.replaceChildren(...answer.jobs.map((job) => jobRow({ ...job, now: answer.now })));
      list.hidden = answer.jobs.length === 0;
      none.hidden = answer.jobs.length > 0;
      const now = answer.jobs.filter((job) => job.state === "running").length;
      if (now !== running) say(now === 1 ? "1 job runs" : `${count(now)} jobs run`);
      running = now;
    };
    await show();
    const timer = setInterval(() => {
      if (live.checked && document.visibilityState === "visible")
        show().catch((error) => lithify.failed(error));
    }, 2000);
    signal.addEventListener("abort", () => clearInterval(timer));
  }

  async function plan(content, parts, signal) {
    const answer = await get("plan", {}, signal);
    const chosen = answer.plan.filter((c) => c.rank);
    put(
      content,
      make(
        "div",
        { class: "head" },
        make("h1", {}, "Plan"),
        make(
          "span",
          { class: "mute" },
          "opted-in tables that you see, in the order in which they would be run",
        ),
      ),
      facts([
        ["Candidates", count(answer.plan.length)],
        ["Would be run", count(chosen.length)],
        [
          "Files",
          count(chosen.reduce((n, c) => n + c.files, 0)),
          `become ${count(chosen.reduce((n, c) => n + c.outputs, 0))}`,
        ],
        ["Bytes", bytes(chosen.reduce((n, c) => n + c.bytes, 0))],
      ]),
      make(
        "section",
        { class: "panel" },
        answer.plan.length > 0
          ? table(
              "Plan",
              planColumns((c) => [
                link(c),
                make("span", { class: "mute" }, " ", name([c.catalog, ...c.namespace].join("."))),
              ]),
              answer.plan,
            )
          : make(
              "p",
              { class: "empty" },
              "No table that you see is opted in to maintenance, or none has anything to do.",
            ),
      ),
    );
  }

  const AUDIT = {
    writing: [
      "good",
      "Statements and changes are on record: each record carries the hash of the one before it.",
    ],
    failing: ["bad", "The audit log could not be written. The server's own log has the reason."],
  };

  async function server(content, parts, signal) {
    const s = await get("server", {}, signal);
    const [tone, text] = AUDIT[s.audit.state] ?? ["", ""];
    put(
      content,
      make(
        "div",
        { class: "head" },
        make("h1", {}, "Server"),
        make("span", { class: "crumb" }, `lithify ${visible(s.version)}`),
      ),
      make(
        "div",
        { class: "columns" },
        panel(
          "You",
          null,
          make(
            "p",
            {},
            name(s.caller.name),
            " ",
            s.caller.anonymous
              ? badge("anonymous", "warn")
              : s.caller.verified
                ? badge("verified", "good")
                : badge("not verified here"),
          ),
          make(
            "p",
            { class: "mute" },
            s.caller.anonymous
              ? "This server takes callers without credentials (for development)."
              : "Your token goes to the catalog, and the catalog decides what is seen here.",
          ),
        ),
        panel(
          "Catalogs",
          null,
          make(
            "p",
            {},
            s.catalogs.flatMap((one, i) => [i > 0 && ", ", name(one)]),
          ),
        ),
        panel(
          "Audit log",
          null,
          make(
            "p",
            {},
            badge(s.audit.state, tone),
            " ",
            s.audit.signed ? badge("signed", "good") : badge("not signed"),
          ),
          make("p", { class: "prose" }, text),
          make("p", { class: "mute" }, "Whether its chain is whole is checked on the file itself:"),
          copied("lithify audit verify FILE"),
        ),
        panel(
          "Workers",
          null,
          s.workers === null
            ? make("p", { class: "empty" }, "Jobs run in this process.")
            : table(
                "Workers",
                [
                  { head: "Worker", first: true, cell: (w) => count(s.workers.indexOf(w) + 1) },
                  { head: "State", cell: (w) => state(w.state), kind: "line" },
                  {
                    head: "Groups",
                    cell: (w) => `${count(w.groups)} of ${count(w.slots)}`,
                    kind: "number",
                  },
                ],
                s.workers,
              ),
        ),
      ),
    );
  }

  Object.assign(lithify, {
    serverViews: { tables, plan, jobs, server },
    oneTable: one,
    // What one caller saw is not another's.
    forget: () => {
      fleet.round += 1;
      fleet.rows = null;
      fleet.errors = [];
      fleet.unlisted = [];
      grid?.set([]);
    },
    planColumns,
    logColumns,
  });
})();
