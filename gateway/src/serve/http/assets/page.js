// Keeps the page up to date without a reload, and filters clusters. Everything works without it, too.
"use strict";

const POLL_MILLIS = 40_000; // longer than the gateway waits for news
const RETRY_MILLIS = 2_000;
const LEAST_MILLIS_BETWEEN = 1_000; // many clusters close slots at nearly the same time

const main = document.getElementById("main");
const news = document.getElementById("news");
const lost = document.getElementById("lost");

const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

async function get(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(POLL_MILLIS) });
  if (answer.status >= 500) throw new Error(`${path}: ${answer.status}`);
  return answer;
}

// Replaces the live parts; the whole content if the page has become another one.
function swap(fresh) {
  const focused = document.activeElement?.id;
  const scrolled = new Map([...main.querySelectorAll(".scroll")].map((box) => [box.id, box.scrollLeft]));
  const ids = (root) => [...root.querySelectorAll("[data-live]")].map((part) => part.id);
  if (ids(main).join() === ids(fresh).join()) {
    for (const part of fresh.querySelectorAll("[data-live]")) document.getElementById(part.id).replaceWith(part);
  } else {
    main.replaceChildren(...fresh.childNodes);
  }
  main.dataset.version = fresh.dataset.version;
  for (const [id, left] of scrolled) document.getElementById(id)?.scrollTo({ left, behavior: "instant" });
  if (focused && document.activeElement?.id !== focused) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
}

async function refresh() {
  const text = await (await get(location.href)).text();
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
  if (!fresh) throw new Error("not a page of the gateway");
  const top = scrollY;
  swap(fresh);
  applyFilter();
  scrollTo({ top, behavior: "instant" });
}

function say(connected) {
  lost.hidden = connected;
  document.body.classList.toggle("offline", !connected);
  if (connected) news.textContent = `Live, updated ${new Date().toISOString().slice(11, 19)} UTC`;
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

news.textContent = "Live";
follow();
