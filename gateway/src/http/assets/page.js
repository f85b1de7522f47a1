// Keeps the page up to date without a reload, filters clusters, and tells a chart's values where the reader points.
// Everything else works without it.
"use strict";

const POLL_MILLIS = 40_000; // longer than the gateway waits for news
const RETRY_MILLIS = 2_000;
const LEAST_MILLIS_BETWEEN = 1_000; // many clusters close slots at nearly the same time

const main = document.getElementById("main");
const news = document.getElementById("news");
const lost = document.getElementById("lost");

let swapping = false;

const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

async function get(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(POLL_MILLIS) });
  if (answer.status >= 500) throw new Error(`${path}: ${answer.status}`);
  return answer;
}

// Replaces the live parts that have changed; the whole content if the page has become another one.
function swap(fresh) {
  swapping = true;
  const focused = document.activeElement?.id;
  const scrolled = new Map([...main.querySelectorAll(".scroll")].map((box) => [box.id, box.scrollLeft]));
  const ids = (root) => [...root.querySelectorAll("[data-live]")].map((part) => part.id);
  if (ids(main).join() === ids(fresh).join()) {
    for (const part of fresh.querySelectorAll("[data-live]")) {
      const old = document.getElementById(part.id);
      if (old.className === part.className && old.innerHTML === part.innerHTML) continue;
      // What is not on the screen is not laid out: it takes as much room as before.
      part.style.containIntrinsicBlockSize = `auto ${old.firstElementChild?.offsetHeight ?? 0}px`;
      old.replaceWith(part);
    }
  } else {
    main.replaceChildren(...fresh.childNodes);
  }
  main.dataset.version = fresh.dataset.version;
  for (const [id, left] of scrolled) document.getElementById(id)?.scrollTo({ left, behavior: "instant" });
  if (focused && document.activeElement?.id !== focused) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
  swapping = false;
}

async function refresh() {
  const text = await (await get(location.href)).text();
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
  if (!fresh) throw new Error("not a page of the gateway");
  const top = scrollY;
  swap(fresh);
  applyFilter();
  pointAgain();
  scrollTo({ top, behavior: "instant" });
}

function say(connected) {
  lost.hidden = connected;
  document.body.classList.toggle("offline", !connected);
  if (!connected) return;
  // The time of a demonstration is not that of the reader.
  const simulated = document.getElementById("notice");
  news.textContent = simulated ? "Live" : `Live, updated ${new Date().toISOString().slice(11, 19)} UTC`;
}

const visible = () =>
  new Promise((resolve) => {
    if (!document.hidden) return resolve();
    document.addEventListener("visibilitychange", resolve, { once: true });
  });

async function follow() {
  let connected = true;
  for (;;) {
    await visible();
    try {
      // A gateway that has come back counts its versions from the start: nothing to wait for then.
      if (connected) await (await get(`/api/v1/clusters?after=${main.dataset.version}`)).arrayBuffer();
      await refresh();
      connected = true;
      say(connected);
      await sleep(LEAST_MILLIS_BETWEEN);
    } catch {
      connected = false;
      say(connected);
      await sleep(RETRY_MILLIS);
    }
  }
}

const filter = document.getElementById("filter");
const filterText = document.getElementById("filter-text");

function applyFilter() {
  if (!filter) return;
  const words = filterText.value.toLowerCase().split(/\s+/).filter(Boolean);
  const cards = [...document.querySelectorAll(".card")];
  for (const card of cards) card.hidden = !words.every((word) => card.dataset.filter.includes(word));
  const shown = cards.filter((card) => !card.hidden).length;
  document.getElementById("filter-count").textContent = words.length ? `${shown} of ${cards.length}` : "";
}

if (filter) {
  filter.hidden = false;
  filter.addEventListener("submit", (event) => event.preventDefault());
  filterText.addEventListener("input", applyFilter);
  applyFilter();
}

// A chart's values. Its data are beside it, as columns; `pointed` is the chart and the middle of the point that is shown.
let pointed = null;

const charts = new WeakMap();
const dataOf = (plot) => {
  if (!charts.has(plot)) charts.set(plot, JSON.parse(plot.querySelector("script").textContent));
  return charts.get(plot);
};

// Everything that can be pointed at, in the order of time: points, and slots without a sum.
function targets(data) {
  const points = data.start.map((start, at) => ({ start, end: data.end[at], at }));
  const failures = data.failures.map((failure) => ({ ...failure, failed: true }));
  return [...points, ...failures]
    .map((target) => ({ ...target, middle: (target.start + target.end) / 2 }))
    .sort((a, b) => a.middle - b.middle);
}

const UNITS = [["W", 1], ["kW", 1e3], ["MW", 1e6], ["GW", 1e9]];

// As the server writes loads: 93.4 ± 27.0 kW.
function load(watts, band) {
  const most = Math.max(Math.abs(watts), band);
  const [name, unit] = UNITS.findLast(([, unit]) => most >= unit) ?? UNITS[0];
  // What is rounded to 0 has no sign.
  const number = (value) =>
    (value / unit)
      .toFixed(most / unit < 10 ? 2 : 1)
      .replace(/^-(?=[0.]*$)/, "")
      .replace("-", "\u2212");
  return `${number(watts)} ± ${number(band)} ${name}`;
}

function clock(seconds, day) {
  const instant = new Date(1000 * seconds);
  const time = instant.toISOString().slice(11, seconds % 60 ? 19 : 16);
  const options = { timeZone: "UTC", day: "numeric", month: "short" };
  return day ? `${instant.toLocaleDateString("en-GB", options)}, ${time}` : time;
}

function lines(data, target) {
  const day = (seconds) => Math.floor(seconds / 86_400);
  const [otherDay, severalDays] = [day(target.start) !== day(data.to), day(target.start) !== day(target.end - 1)];
  const when = `${clock(target.start, otherDay)}\u2013${clock(target.end, severalDays)}`;
  if (target.failed) {
    return [["", when], ["", target.slots > 1 ? `${target.slots} slots without a sum, the last: ${target.reason}` : `No sum: ${target.reason}`]];
  }
  const value = (kind) => {
    const [watts, band] = [data[`load${kind}_watts`][target.at], data[`band95${kind}_watts`][target.at]];
    return watts === null ? [] : [load(watts, band)];
  };
  const slots = data.slots[target.at];
  return [
    ["", slots > 1 ? `${when}, mean of ${slots} slots` : when],
    ...(data.clusters[target.at] ? [["", data.clusters[target.at]]] : []),
    ...value("_filtered").map((text) => ["Filtered", text]),
    // Of hours and days there is no plain sum.
    ...(data.step === "slot" ? value("").map((text) => ["Plain sum", text]) : []),
    ...value("_estimated").map((text) => [data.step === "slot" ? "Estimate for all" : "Mean load of all", text]),
  ];
}

function tell(plot, target) {
  const data = dataOf(plot);
  const [pointer, tip] = [plot.querySelector(".pointer"), plot.querySelector(".tip")];
  const share = Math.min(1, Math.max(0, (target.middle - data.from) / (data.to - data.from)));
  pointer.removeAttribute("hidden");
  for (const end of ["x1", "x2"]) pointer.querySelector(".cursor").setAttribute(end, `${100 * share}%`);
  for (const [name, kind] of [["load", data.unfiltered], ["filtered", "_filtered"]]) {
    const watts = target.failed ? null : data[`load${kind}_watts`][target.at];
    const dot = pointer.querySelector(`.dot-${name}`);
    dot.toggleAttribute("hidden", watts === null);
    dot.setAttribute("cx", `${100 * share}%`);
    dot.setAttribute("cy", `${(100 * (data.high - (watts ?? 0))) / (data.high - data.low)}%`);
  }
  tip.replaceChildren(
    ...lines(data, target).map(([name, text]) => {
      const line = document.createElement("p");
      const label = document.createElement("span");
      label.textContent = name;
      line.append(...(name ? [label, " "] : []), text);
      return line;
    }),
  );
  tip.hidden = false;
  const [frame, area] = [plot.getBoundingClientRect(), plot.querySelector(".area").getBoundingClientRect()];
  const middle = area.left - frame.left + share * area.width;
  const left = share < 0.5 ? middle + 12 : middle - 12 - tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(frame.width - tip.offsetWidth, left))}px`;
  pointed = { id: plot.id, middle: target.middle };
}

function tellNothing() {
  const plot = pointed && document.getElementById(pointed.id);
  plot?.querySelector(".pointer").setAttribute("hidden", "");
  if (plot) plot.querySelector(".tip").hidden = true;
  pointed = null;
}

const nearest = (all, seconds) =>
  all.reduce((best, one) => (Math.abs(one.middle - seconds) < Math.abs(best.middle - seconds) ? one : best), all[0]);

function pointAt(plot, x) {
  const data = dataOf(plot);
  const area = plot.querySelector(".area").getBoundingClientRect();
  const target = nearest(targets(data), data.from + ((x - area.left) / area.width) * (data.to - data.from));
  if (target) tell(plot, target);
}

// The part of the page with the chart may have been replaced by a newer one.
function pointAgain() {
  const plot = pointed && document.getElementById(pointed.id);
  const target = plot && nearest(targets(dataOf(plot)), pointed.middle);
  if (target) tell(plot, target);
}

function point(event) {
  const plot = event.target.closest?.(".plot");
  if (plot) pointAt(plot, event.clientX);
  else if (!document.activeElement?.matches(".plot")) tellNothing();
}

document.addEventListener("pointermove", point);
document.addEventListener("pointerdown", point);
document.addEventListener("focusout", (event) => {
  if (!swapping && event.target.matches?.(".plot")) tellNothing();
});
document.addEventListener("keydown", (event) => {
  const plot = event.target.closest?.(".plot");
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (plot && event.key === "Escape") tellNothing();
  if (!plot || !step) return;
  event.preventDefault();
  const all = targets(dataOf(plot));
  const at = pointed?.id === plot.id ? all.findIndex((target) => target.middle === pointed.middle) + step : all.length - 1;
  if (all[at]) tell(plot, all[at]);
});

news.textContent = "Live";
follow();
