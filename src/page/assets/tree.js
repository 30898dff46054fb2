// What is written into the page: the state of a hive tree, and the report of a scheduler's tick.
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
    time,
    when,
    table,
    panel,
    facts,
    badge,
    state,
    copied,
  } = lithify;

  // --- a tree -------------------------------------------------------------------------------------

  const total = (t) => t.small_files + t.irreducible_small_files;
  const BOUNDS = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30];

  function spread(sizes) {
    const counts = new Array(BOUNDS.length + 1).fill(0);
    for (const size of sizes) {
      const at = BOUNDS.findIndex((bound) => size < bound);
      counts[at < 0 ? BOUNDS.length : at] += 1;
    }
    return { bounds: BOUNDS, before: counts, after: null };
  }

  // Days of one tenant, with the sums of their partitions.
  function daysOf(partitions) {
    const days = new Map();
    for (const p of partitions) {
      if (!p.date) continue;
      const at = days.get(p.date) ?? {
        files: 0,
        small: 0,
        backlog: 0,
        partitions: 0,
        generation: 0,
        bytes: 0,
      };
      at.files += p.live_files;
      at.small += p.small_files;
      at.bytes += p.live_bytes;
      at.partitions += 1;
      at.backlog += p.verdict === "candidate" ? 1 : 0;
      at.generation = Math.max(at.generation, p.generation);
      days.set(p.date, at);
    }
    return days;
  }

  // Small files of a day, on a scale that tells 2 from 20 from 200.
  const level = (d) => (d.small === 0 ? 0 : Math.min(4, 1 + Math.floor(Math.log10(d.small) * 1.5)));
  const text = (d) =>
    `${count(d.files)} files, ${count(d.small)} small, ${bytes(d.bytes)}, generation ${d.generation}${d.backlog ? `, ${d.backlog} waiting` : ""}`;

  const CALENDARS = 12;

  function overview(content) {
    const { status } = lithify.written;
    const t = status.totals;
    const sizes = status.partitions.flatMap((p) => p.file_sizes);
    const tenants = new Map();
    for (const p of status.partitions) {
      const key = JSON.stringify([p.series, p.tenant]);
      if (!tenants.has(key)) tenants.set(key, []);
      tenants.get(key).push(p);
    }
    const ranked = [...tenants.values()].sort(
      (a, b) => b.reduce((n, p) => n + p.small_files, 0) - a.reduce((n, p) => n + p.small_files, 0),
    );
    const calendars = ranked.slice(0, CALENDARS).map((partitions) => {
      const days = daysOf(partitions);
      const title = `${visible(partitions[0].series)} / ${visible(partitions[0].tenant)}`;
      const small = partitions.reduce((n, p) => n + p.small_files, 0);
      return make(
        "div",
        {},
        make(
          "h3",
          {},
          name(title),
          " ",
          make(
            "span",
            { class: "mute" },
            `${count(small)} small files in ${count(partitions.length)} partitions`,
          ),
        ),
        lithify.calendar(`Small files by day of ${title}`, days, level, text),
      );
    });
    put(
      content,
      make(
        "div",
        { class: "head" },
        make("h1", {}, "Tree"),
        make("span", { class: "crumb" }, name(status.root)),
      ),
      facts([
        ["Partitions", count(t.partitions), `${count(status.tenants.length)} tenants`],
        ["Files", count(t.live_files), bytes(t.live_bytes)],
        ["Small files", count(t.small_files), share(t.small_files, t.live_files)],
        ["Backlog", count(t.backlog), "sealed partitions that wait"],
        ["Irreducible", count(t.irreducible_small_files), "small, and no plan improves them"],
        ["Errors", count(t.errors + status.errors.length)],
      ]),
      status.errors.length > 0 &&
        make(
          "div",
          { class: "notice bad" },
          status.errors.map((e) =>
            make("p", {}, visible(e.message), e.context && ` (${visible(e.context)})`),
          ),
        ),
      make(
        "div",
        { class: "columns" },
        panel(
          "Files by size",
          `${count(sizes.length)} live files`,
          lithify.histogram(spread(sizes)),
        ),
        panel(
          "Tenants",
          "those with the most small files first",
          table(
            "Tenants",
            [
              { head: "Series", first: true, cell: (r) => name(r.series) },
              { head: "Tenant", cell: (r) => name(r.tenant) },
              { head: "Partitions", cell: (r) => count(r.partitions), kind: "number" },
              { head: "Files", cell: (r) => count(r.live_files), kind: "number" },
              { head: "Size", cell: (r) => bytes(r.live_bytes), kind: "number" },
              { head: "Small", cell: (r) => count(r.small_files), kind: "number" },
              {
                head: "Backlog",
                cell: (r) => (r.backlog > 0 ? badge(count(r.backlog), "warn") : "0"),
                kind: "number",
              },
            ],
            status.tenants
              .slice()
              .sort((a, b) => total(b) - total(a))
              .slice(0, 200),
            true,
          ),
        ),
        make(
          "div",
          { class: "wide" },
          panel(
            "Small files by day",
            ranked.length > CALENDARS
              ? `the ${CALENDARS} tenants with most of them, of ${count(ranked.length)}`
              : null,
            lithify.legend([
              ["heat-0", "none"],
              ["heat-1", "1 to 4"],
              ["heat-2", "5 to 21"],
              ["heat-3", "22 to 99"],
              ["heat-4", "100 and more"],
              ["ring", "waits for compaction"],
            ]),
            make("div", { class: "calendars" }, calendars),
          ),
        ),
      ),
    );
  }

  const PARTITIONS = [
    {
      key: "name",
      head: "Partition",
      width: "minmax(11rem, 2.4fr)",
      narrow: true,
      value: (p) => p.key,
      cell: (p) => [
        make(
          "a",
          { href: `#/partition/${encodeURIComponent(p.key)}`, title: visible(p.key) },
          name(`${p.series} / ${p.tenant}`),
        ),
        make("span", { class: "where" }, " ", p.start ? when(p.start) : name(p.key)),
      ],
    },
    {
      key: "small",
      head: "Small files",
      width: "minmax(5.4rem, 0.8fr)",
      narrow: true,
      number: true,
      value: (p) => p.small_files,
      cell: (p) => count(p.small_files),
    },
    {
      key: "state",
      head: "State",
      width: "minmax(6rem, 1fr)",
      narrow: true,
      value: (p) => p.state,
      cell: (p) => state(p.state),
    },
    {
      key: "files",
      head: "Files",
      width: "minmax(4.5rem, 0.7fr)",
      number: true,
      value: (p) => p.live_files,
      cell: (p) => count(p.live_files),
    },
    {
      key: "size",
      head: "Size",
      width: "minmax(5rem, 0.7fr)",
      number: true,
      value: (p) => p.live_bytes,
      cell: (p) => bytes(p.live_bytes),
    },
    {
      key: "generation",
      head: "Generation",
      width: "minmax(5.4rem, 0.7fr)",
      number: true,
      value: (p) => p.generation,
      cell: (p) => count(p.generation),
    },
    {
      key: "last",
      head: "Last compaction",
      width: "minmax(9.5rem, 1fr)",
      value: (p) => p.last_compaction,
      cell: (p) => when(p.last_compaction),
    },
    {
      key: "why",
      head: "Decided by",
      width: "minmax(10rem, 2fr)",
      value: (p) => p.reason,
      cell: (p) =>
        make("span", { title: visible(p.reason) }, visible(p.error?.message ?? p.reason)),
    },
  ];

  let grid = null;
  function partitions(content) {
    const { status } = lithify.written;
    if (grid === null) {
      grid = new lithify.Grid({
        label: "Partitions",
        columns: PARTITIONS,
        sort: { key: "small", down: true },
        search: (p) => p.text,
        where: "partitions",
      });
      const keep = {
        all: () => true,
        "waiting for compaction": (p) => p.verdict === "candidate",
        "with errors": (p) => Boolean(p.error),
      };
      grid.tools.append(
        make(
          "label",
          {},
          "Show",
          make(
            "select",
            { onchange: (event) => grid.filter(keep[event.target.value]) },
            Object.keys(keep).map((key) => make("option", {}, key)),
          ),
        ),
        grid.count,
      );
    }
    put(
      content,
      make(
        "div",
        { class: "head" },
        make("h1", {}, "Partitions"),
        make("span", { class: "crumb" }, name(status.root)),
      ),
      grid.tools,
      grid.element,
    );
    grid.set(status.partitions);
  }

  function partition(content, [key]) {
    const p = lithify.written.status.partitions.find((one) => one.key === key);
    if (!p) throw Object.assign(new Error("there is no such partition"), { hint: visible(key) });
    put(
      content,
      make("div", { class: "head" }, make("h1", {}, name(p.key)), state(p.state)),
      facts([
        ["Files", count(p.live_files), bytes(p.live_bytes)],
        ["Small files", count(p.small_files), share(p.small_files, p.live_files)],
        ["Generation", count(p.generation)],
        [
          "Last compaction",
          when(p.last_compaction).slice(0, 10),
          when(p.last_compaction).slice(11),
        ],
      ]),
      panel("Decided by", null, make("p", {}, visible(p.error?.message ?? p.reason))),
      p.file_sizes.length > 0 &&
        panel("Files by size", null, lithify.histogram(spread(p.file_sizes))),
    );
  }

  function prepareTree() {
    for (const p of lithify.written.status.partitions) {
      p.state = p.error ? "error" : p.verdict;
      p.key = p.partition;
      p.date = p.start?.slice(0, 10);
      p.text = `${p.key} ${p.series} ${p.tenant} ${when(p.start)}`.toLowerCase();
    }
  }

  // --- what a scheduler saw -----------------------------------------------------------------------

  const GATES = [
    {
      key: "name",
      head: "Table",
      width: "minmax(10rem, 2fr)",
      narrow: true,
      value: (t) => t.table,
      cell: (t) =>
        make(
          "a",
          { href: `#/seen/${encodeURIComponent(t.table)}`, title: visible(t.table) },
          name(t.table),
        ),
    },
    {
      key: "gate",
      head: "Gate",
      width: "minmax(6.5rem, 0.8fr)",
      narrow: true,
      value: (t) => t.gate,
      cell: (t) => state(t.gate),
    },
    {
      key: "small",
      head: "Small files",
      width: "minmax(5.4rem, 0.7fr)",
      narrow: true,
      number: true,
      value: (t) => t.small_files,
      cell: (t) => count(t.small_files),
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
      key: "debt",
      head: "To rewrite",
      width: "minmax(5.4rem, 0.7fr)",
      number: true,
      value: (t) => t.est_rewrite_bytes,
      cell: (t) => bytes(t.est_rewrite_bytes),
    },
    {
      key: "due",
      head: "Due",
      width: "minmax(7rem, 0.9fr)",
      value: (t) => t.due,
      cell: (t) => (t.due ? lithify.words(t.due) : "–"),
    },
    {
      key: "why",
      head: "Why",
      width: "minmax(10rem, 2.4fr)",
      value: (t) => t.gate_reason,
      cell: (t) =>
        make(
          "span",
          { title: visible(t.reason || t.gate_reason) },
          visible(t.reason || t.gate_reason),
        ),
    },
  ];

  // Only of names that are nothing else wherever they are pasted.
  const optIn = (t) =>
    t.gate === "not_opted_in" && /^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+$/.test(t.table)
      ? `ALTER TABLE ${t.table} SET TBLPROPERTIES ('sqe.maintenance.enabled' = 'true')`
      : null;

  let gates = null;
  function seen(content) {
    const { report } = lithify.written;
    gates ??= new lithify.Grid({
      label: "Tables",
      columns: GATES,
      sort: { key: "debt", down: true },
      search: (t) => t.table.toLowerCase(),
      where: "tables",
    });
    if (!gates.count.isConnected) gates.tools.append(gates.count);
    const open = report.tables.filter((t) => t.gate === "opted_in").length;
    put(
      content,
      make(
        "div",
        { class: "head" },
        make("h1", {}, "Maintenance"),
        make(
          "span",
          { class: "crumb" },
          `mode ${visible(report.mode)}`,
          report.principal && [" as ", name(report.principal)],
        ),
      ),
      report.error && make("div", { class: "notice bad" }, make("p", {}, visible(report.error))),
      ...report.loud.map((line) =>
        make(
          "div",
          { class: "notice warn" },
          make(
            "p",
            {},
            make("strong", {}, lithify.words(line.what)),
            " ",
            line.where && name(line.where),
          ),
          make("p", {}, visible(line.why)),
          line.next && make("p", { class: "mute" }, visible(line.next)),
        ),
      ),
      report.limits && make("div", { class: "notice" }, make("p", {}, visible(report.limits))),
      facts([
        ["Tables", count(report.tables.length), `${count(open)} opted in`],
        [
          "Candidates",
          count(report.plan.length),
          `${count(report.plan.filter((c) => c.rank).length)} would be run`,
        ],
        ["Jobs", count(report.jobs.length), "of the last tick"],
        ["Last tick", when(report.ended).slice(11), when(report.ended).slice(0, 10)],
      ]),
      gates.tools,
      gates.element,
    );
    gates.set(report.tables);
  }

  function seenTable(content, [wanted]) {
    const { report } = lithify.written;
    const t = report.tables.find((one) => one.table === wanted);
    if (!t)
      throw Object.assign(new Error("the last tick did not see this table"), {
        hint: visible(wanted),
      });
    const plan = report.plan.filter((c) => c.table === wanted);
    const jobs = report.jobs.filter((j) => j.table === wanted);
    put(
      content,
      make("div", { class: "head" }, make("h1", {}, name(t.table)), state(t.gate)),
      facts([
        ["Files", count(t.data_files), `${bytes(t.file_bytes_average)} on average`],
        ["Small files", count(t.small_files)],
        ["Delete files", count(t.delete_files)],
        ["To rewrite", bytes(t.est_rewrite_bytes)],
      ]),
      panel(
        "Gate",
        null,
        make("p", {}, visible(t.gate_reason)),
        optIn(t) && copied(optIn(t)),
        t.reason && make("p", {}, visible(t.reason)),
        (t.warnings ?? []).map((w) => make("p", { class: "mute" }, visible(w))),
      ),
      panel(
        "Plan",
        null,
        plan.length > 0
          ? table("Plan", lithify.planColumns(), plan)
          : make("p", { class: "empty" }, "No candidate."),
      ),
      panel(
        "Jobs",
        null,
        jobs.length > 0
          ? table("Jobs", lithify.logColumns(), jobs)
          : make("p", { class: "empty" }, "No job at the last tick."),
      ),
    );
  }

  const withTable = (row) => name(row.table);
  function seenPlan(content) {
    const { plan } = lithify.written.report;
    put(
      content,
      make("div", { class: "head" }, make("h1", {}, "Plan")),
      make(
        "section",
        { class: "panel" },
        plan.length > 0
          ? table("Plan", lithify.planColumns(withTable), plan)
          : make("p", { class: "empty" }, "The last tick saw no candidate."),
      ),
    );
  }
  function seenJobs(content) {
    const { jobs } = lithify.written.report;
    put(
      content,
      make(
        "div",
        { class: "head" },
        make("h1", {}, "Jobs"),
        make("span", { class: "mute" }, "of the last tick"),
      ),
      make(
        "section",
        { class: "panel" },
        jobs.length > 0
          ? table("Jobs", lithify.logColumns(withTable), jobs)
          : make("p", { class: "empty" }, "The last tick ran none."),
      ),
    );
  }

  Object.assign(lithify, {
    prepare: { tree: prepareTree, maintenance: () => {} },
    writtenViews: {
      tree: { overview, partitions },
      maintenance: { tables: seen, plan: seenPlan, jobs: seenJobs },
    },
    writtenItems: { tree: { partition }, maintenance: { seen: seenTable } },
  });
})();
