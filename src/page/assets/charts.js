// Charts as SVG, each with its numbers as a table below it.
"use strict";
(() => {
  const { make, draw, count, bytes, short, when } = lithify;

  const figure = (svg, legend, details) => make("figure", {}, svg, legend, details);
  const numbers = (table) => make("details", {}, make("summary", {}, "As a table"), table);
  const legend = (items) =>
    make(
      "ul",
      { class: "legend" },
      items.map(([kind, text]) => make("li", {}, make("span", { class: `swatch ${kind}` }), text)),
    );

  // A round number not below `n`.
  function ceiling(n) {
    if (n <= 0) return 1;
    const power = 10 ** Math.floor(Math.log10(n));
    return [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= n);
  }
  const box = () =>
    matchMedia("(max-width: 48rem)").matches
      ? { width: 360, height: 190 }
      : { width: 640, height: 210 };

  function axis(svg, area, top, text) {
    for (const part of [0, 0.5, 1]) {
      const y = area.bottom - part * (area.bottom - area.top);
      svg.append(draw("line", { class: "axis", x1: area.left, x2: area.right, y1: y, y2: y }));
      svg.append(
        draw("text", { x: area.left - 6, y: y + 4, "text-anchor": "end" }, text(part * top)),
      );
    }
  }

  // histogram: {bounds: [bytes], before: [files], after: [files] or null}; one more count than bounds.
  function histogram({ bounds, before, after }) {
    const { width, height } = box();
    const area = { left: 44, right: width - 4, top: 10, bottom: height - 24 };
    const top = ceiling(Math.max(2, ...before, ...(after ?? [])));
    const step = (area.right - area.left) / before.length;
    const label = (i) =>
      i === 0
        ? `under ${bytes(bounds[0])}`
        : i === bounds.length
          ? `${bytes(bounds[i - 1])} and more`
          : `${bytes(bounds[i - 1])} to ${bytes(bounds[i])}`;
    const all = (list) => count(list.reduce((a, b) => a + b, 0));
    const svg = draw("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Files by size: ${all(before)} now${after ? `, ${all(after)} after the plan` : ""}`,
    });
    axis(svg, area, top, (n) => short(Math.round(n)));
    const bar = (kind, n, x, w, i) => {
      if (n === 0) return;
      const h = Math.max(1.5, (n / top) * (area.bottom - area.top));
      svg.append(
        draw(
          "rect",
          { class: kind, x, width: w, y: area.bottom - h, height: h, rx: 1 },
          draw("title", {}, `${label(i)}: ${count(n)} ${kind === "before" ? "now" : "after"}`),
        ),
      );
    };
    const gap = Math.max(1, step * 0.14);
    before.forEach((n, i) => {
      const x = area.left + i * step + gap;
      const w = (step - 2 * gap) / (after ? 2 : 1);
      bar("before", n, x, w, i);
      if (after) bar("after", after[i], x + w, w, i);
    });
    const every = width < 400 ? 2 : 1;
    bounds.forEach((bound, i) => {
      if (i % every !== every - 1) return;
      svg.append(
        draw(
          "text",
          { x: area.left + (i + 1) * step, y: height - 7, "text-anchor": "middle" },
          bytes(bound).replace(/\.0+ /, " "),
        ),
      );
    });
    const rows = before.map((n, i) => ({ i, n, after: after?.[i] }));
    return figure(
      svg,
      legend(
        after
          ? [
              ["before", "now"],
              ["after", "if the plan is run"],
            ]
          : [["before", "files now"]],
      ),
      numbers(
        lithify.table(
          "Files by size",
          [
            { head: "Size", cell: (r) => label(r.i), first: true, kind: "line" },
            { head: "Now", cell: (r) => count(r.n), kind: "number" },
            ...(after ? [{ head: "After", cell: (r) => count(r.after), kind: "number" }] : []),
          ],
          rows,
        ),
      ),
    );
  }

  // points: [{time, value, marked}], oldest first; steps, since nothing happens between commits.
  function overTime(title, points, unit) {
    const { width, height } = box();
    const area = { left: 52, right: width - 8, top: 10, bottom: height - 24 };
    const at = points.map((p) => Date.parse(p.time));
    const from = at[0];
    const span = Math.max(1, at[at.length - 1] - from);
    const top = ceiling(Math.max(2, ...points.map((p) => p.value)));
    const x = (t) => area.left + ((t - from) / span) * (area.right - area.left);
    const y = (v) => area.bottom - (v / top) * (area.bottom - area.top);
    const svg = draw("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${title}: ${count(points[0].value)} at first, ${count(points[points.length - 1].value)} now`,
    });
    axis(svg, area, top, (n) => short(Math.round(n)));
    let line = "";
    points.forEach((p, i) => {
      line += i === 0 ? `M${x(at[0])} ${y(p.value)}` : `H${x(at[i])}V${y(p.value)}`;
    });
    const end = points.length === 1 ? area.right : x(at[at.length - 1]);
    if (points.length === 1) line += `H${end}`;
    svg.append(draw("path", { class: "area", d: `${line}V${area.bottom}H${area.left}Z` }));
    points.forEach((p, i) => {
      if (p.marked)
        svg.append(
          draw(
            "line",
            { class: "mark", x1: x(at[i]), x2: x(at[i]), y1: area.top, y2: area.bottom },
            draw("title", {}, `${when(p.time)}: compacted`),
          ),
        );
    });
    svg.append(draw("path", { class: "line", d: line }));
    svg.append(
      draw("circle", { class: "dot", cx: end, cy: y(points[points.length - 1].value), r: 2.5 }),
    );
    svg.append(draw("text", { x: area.left, y: height - 7 }, when(points[0].time)));
    svg.append(
      draw(
        "text",
        { x: area.right, y: height - 7, "text-anchor": "end" },
        when(points[points.length - 1].time),
      ),
    );
    return figure(
      svg,
      points.some((p) => p.marked) &&
        make("ul", { class: "legend" }, make("li", {}, "Dashed: a snapshot that replaced files")),
      numbers(
        lithify.table(
          title,
          [
            { head: "Snapshot of", cell: (p) => when(p.time), first: true, kind: "line" },
            { head: unit, cell: (p) => count(p.value), kind: "number" },
          ],
          points.slice().reverse(),
        ),
      ),
    );
  }

  // A bar in a row; its number is beside it as text.
  function bar(part, tone) {
    const width = Math.max(part > 0 ? 1.5 : 0, Math.min(1, part) * 100);
    return draw(
      "svg",
      { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      draw("rect", { class: "track", width: 100, height: 8, rx: 1 }),
      draw("rect", { class: `fill ${tone ?? ""}`, width, height: 8, rx: 1 }),
    );
  }

  // days: Map of "2026-11-29" to {files, small, backlog, partitions, generation}. A column for each
  // week, Monday first.
  function calendar(title, days, level, text) {
    const DAY = 86400000;
    const keys = [...days.keys()].sort();
    if (keys.length === 0) return null;
    const start = Date.parse(keys[0]);
    const monday = start - ((new Date(start).getUTCDay() + 6) % 7) * DAY;
    const last = Date.parse(keys[keys.length - 1]);
    const weeks = Math.floor((last - monday) / (7 * DAY)) + 1;
    const size = 13,
      gap = 3,
      left = 30,
      top = 18;
    const width = left + weeks * (size + gap) + 24,
      height = top + 7 * (size + gap);
    const svg = draw("svg", {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": title,
    });
    ["Mon", "", "Wed", "", "Fri", "", "Sun"].forEach((day, i) => {
      if (day) svg.append(draw("text", { x: 0, y: top + i * (size + gap) + 10.5 }, day));
    });
    let month = -1;
    let labelled = -99;
    for (let week = 0; week < weeks; ++week) {
      const first = new Date(monday + week * 7 * DAY);
      if (first.getUTCMonth() !== month && week - labelled > 2) {
        month = first.getUTCMonth();
        labelled = week;
        const name = first.toLocaleString("en", { month: "short", timeZone: "UTC" });
        svg.append(
          draw(
            "text",
            { x: left + week * (size + gap), y: 11 },
            month === 0 || week === 0 ? `${name} ${first.getUTCFullYear()}` : name,
          ),
        );
      }
      for (let day = 0; day < 7; ++day) {
        const key = new Date(monday + (week * 7 + day) * DAY).toISOString().slice(0, 10);
        const value = days.get(key);
        if (!value) continue;
        svg.append(
          draw(
            "rect",
            {
              class: `heat-${level(value)}${value.backlog > 0 ? " backlog" : ""}`,
              rx: 2,
              x: left + week * (size + gap) + 0.8,
              y: top + day * (size + gap) + 0.8,
              width: size - 1.6,
              height: size - 1.6,
            },
            draw("title", {}, `${key}: ${text(value)}`),
          ),
        );
      }
    }
    return make("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": title }, svg);
  }

  Object.assign(lithify, { histogram, overTime, bar, calendar, legend, numbers });
})();
