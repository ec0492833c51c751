// The keyboard, and what must survive when htmx swaps a part of the page. Everything else is HTML.
"use strict";

const live = () => document.getElementById("live");
const slots = () => [...document.querySelectorAll("[data-plan] a.s")];

// Of all nodes only one is in the tab order; the arrow keys move between them.
function rove(current) {
  const all = slots();
  for (const slot of all) slot.tabIndex = -1;
  const one = current || all[0];
  if (one) one.tabIndex = 0;
}

function describe(slot) {
  const about = document.getElementById("about");
  if (about && slot) about.textContent = slot.getAttribute("aria-label") || "";
}

// The nearest slot above or below, by position on the screen.
function vertical(from, direction) {
  const here = from.getBoundingClientRect();
  let best = null, distance = Infinity;
  for (const slot of slots()) {
    const there = slot.getBoundingClientRect();
    const rows = (there.top - here.top) * direction;
    if (rows < 2) continue;
    const away = rows * 4 + Math.abs(there.left - here.left);
    if (away < distance) [best, distance] = [slot, away];
  }
  return best;
}

function move(key) {
  const all = slots();
  const at = all.indexOf(document.activeElement);
  if (!all.length) return false;
  const next = at < 0 ? all.find((slot) => slot.tabIndex === 0) || all[0]
    : key === "ArrowLeft" || key === "h" ? all[at - 1]
    : key === "ArrowRight" || key === "l" ? all[at + 1]
    : vertical(all[at], key === "ArrowDown" || key === "j" ? 1 : -1);
  if (next) {
    rove(next);
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
  return true;
}

// In the results of a search, the arrow keys move as in a menu.
function moveInHits(down) {
  const stops = [document.getElementById("search"), ...document.querySelectorAll("#hits a")];
  const next = stops[stops.indexOf(document.activeElement) + (down ? 1 : -1)];
  if (next) next.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const active = document.activeElement;
  const inSearch = active && active.closest("search");
  if (event.key === "Escape") {
    const hits = document.getElementById("hits");
    if (inSearch) {
      hits.replaceChildren();
      document.getElementById("search").value = "";
      active.blur();
    } else if (slots().includes(active)) active.blur();
    else if (location.pathname !== "/") history.length > 1 ? history.back() : location.assign("/");
    return;
  }
  if (inSearch && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    moveInHits(event.key === "ArrowDown");
    event.preventDefault();
    return;
  }
  const slides = active && active.matches("input[type=range]");
  if (active && active.matches("input, textarea, select") && !(slides && !event.key.startsWith("Arrow"))) return;
  const button = { "[": "back", "]": "on", n: "difference", p: "play" }[event.key];
  if (event.key === "/") {
    document.getElementById("search").focus();
    event.preventDefault();
  } else if (button && document.querySelector(`.steps [id^=${button}][href]`)) {
    document.querySelector(`.steps [id^=${button}][href]`).click();
  } else if (/^(Arrow(Left|Right|Up|Down)|[hjkl])$/.test(event.key)) {
    if (move(event.key)) event.preventDefault();
  }
});

document.addEventListener("focusin", (event) => { if (event.target.matches("a.s")) describe(event.target); });
document.addEventListener("mouseover", (event) => { if (event.target.matches("a.s")) describe(event.target); });

// A swap replaces the focused link and closes what was open: both are restored.
let kept = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target !== live()) return;
  const active = document.activeElement;
  kept = {
    href: active && live().contains(active) ? active.getAttribute("href") : null,
    open: [...document.querySelectorAll("#live details[open]")].map((each) => each.id),
    about: (document.getElementById("about") || {}).textContent,
  };
});
document.addEventListener("htmx:afterSettle", () => {
  if (!kept) return;
  const { href, open, about } = kept;
  kept = null;
  const link = href && document.querySelector(`#live a[href="${CSS.escape(href)}"]`);
  rove(link && link.matches("a.s") ? link : null);
  if (link) link.focus({ preventScroll: true });
  else if (about && document.getElementById("about")) document.getElementById("about").textContent = about;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
});

// The slider of a history: it says which time it is at. When a moment is shown, the address is that moment's.
document.addEventListener("input", ({ target }) => {
  if (target.id !== "scrub") return;
  const moment = new Date((Number(target.dataset.begin) + Number(target.value)) * 1000);
  document.getElementById("scrubbed").textContent = `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
});
document.addEventListener("htmx:afterSettle", () => {
  const shown = document.querySelector("[data-address]");
  if (!shown || kept) return;
  window.history.replaceState(null, "", shown.dataset.address);
  rove();
});

// Whether the server still answers.
const lost = (yes) => { document.getElementById("lost").hidden = !yes; };
document.addEventListener("htmx:sendError", () => lost(true));
document.addEventListener("htmx:afterOnLoad", () => lost(false));

rove();
