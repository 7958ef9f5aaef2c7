"use strict";
(() => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const main = $("timeline");
  const data = JSON.parse($("data").textContent);
  const entries = all(".e", main);
  const MOST_MARKS = 3000;

  function make(name, classes, ...inside) {
    const made = document.createElement(name);
    if (classes) made.className = classes;
    made.append(...inside);
    return made;
  }
  const number = (value) => value.toLocaleString("en");

  // --- light and dark

  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  function dress(theme) {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    $("theme").textContent = isDark() ? "Light" : "Dark";
  }
  function redress() {
    const theme = isDark() ? "light" : "dark";
    dress(theme);
    // A file may have no storage: then the choice is for this visit.
    try { localStorage.setItem("agent-page-theme", theme); } catch {}
  }
  try { dress(localStorage.getItem("agent-page-theme")); } catch { dress(""); }

  // --- what is shown

  const matching = new Set();
  const kinds = all(".kinds input:not([id])");
  function filter() {
    const off = new Set(kinds.filter((box) => !box.checked).map((box) => box.value));
    main.classList.toggle("no-thoughts", off.has("thought"));
    const failed = $("failed").checked, only = $("matching").checked && $("query").value;
    for (const entry of entries) {
      const classes = entry.classList;
      const shown = !off.has(classes[1]) && (!failed || classes.contains("failed") || entry.querySelector(".failed")) && (!only || matching.has(entry));
      entry.hidden = !shown;
    }
    for (const part of all(".step, .turn", main).reverse()) {
      part.hidden = !part.querySelector(".e:not([hidden])");
    }
  }
  function showEverything() {
    for (const box of kinds) box.checked = true;
    $("failed").checked = $("matching").checked = false;
    filter();
  }
  for (const box of all(".kinds input")) box.addEventListener("change", filter);

  // --- going to places

  let current = null;
  function reveal(element) {
    if (element.closest("[hidden]")) showEverything();
    for (let up = element; up && up !== main; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
  }
  function goTo(entry) {
    if (!entry) return;
    reveal(entry);
    if (current) current.classList.remove("cur");
    current = entry;
    entry.classList.add("cur");
    entry.tabIndex = -1;
    entry.focus({ preventScroll: true });
    entry.scrollIntoView();
  }
  function followHash() {
    const element = $(location.hash.slice(1));
    if (!element || !main.contains(element)) return;
    const entry = element.closest(".e");
    if (entry) goTo(entry); else reveal(element);
    const show = () => element.scrollIntoView({ block: entry && entry !== element ? "center" : "start" });
    show();
    // What was skipped in drawing has its true height from now on.
    requestAnimationFrame(show);
  }
  addEventListener("hashchange", followHash);

  const underBar = () => document.querySelector(".bar").getBoundingClientRect().bottom;
  function near() {
    if (!current || current.hidden) return null;
    const place = current.getBoundingClientRect();
    return place.bottom > underBar() && place.top < innerHeight ? current : null;
  }
  function firstInView(list) {
    const bar = underBar();
    let low = 0, high = list.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle].getBoundingClientRect().bottom > bar + 4) high = middle; else low = middle + 1;
    }
    return low;
  }
  function move(by) {
    const shown = entries.filter((entry) => !entry.closest("[hidden]") && !hiddenInFold(entry));
    if (!shown.length) return;
    const from = near();
    const at = from ? shown.indexOf(from) + by : firstInView(shown);
    goTo(shown[Math.max(0, Math.min(shown.length - 1, at))]);
  }
  function hiddenInFold(entry) {
    const fold = entry.parentElement.closest("details");
    return fold && main.contains(fold) && (!fold.open || (fold.closest(".e") && hiddenInFold(fold.closest(".e"))));
  }
  const steps = all(".step", main).filter((step) => step.firstElementChild.id.startsWith("step-"));
  function moveStep(by) {
    const shown = steps.filter((step) => !step.hidden);
    if (!shown.length) return;
    const from = near()?.closest(".step");
    const at = from ? shown.indexOf(from) + by : firstInView(shown);
    const step = shown[Math.max(0, Math.min(shown.length - 1, at))];
    goTo(step.querySelector(".e:not([hidden])"));
    step.scrollIntoView();
  }
  function unfoldAll() {
    const open = $("unfold").getAttribute("aria-pressed") !== "true";
    for (const fold of all("details", main)) fold.open = open;
    $("unfold").setAttribute("aria-pressed", open);
    $("unfold").textContent = open ? "Fold all" : "Unfold all";
  }

  // --- search

  let texts = null, hits = [], hit = -1;
  // Texts in different ones of these look apart, so a space of the query may stand between them.
  const APART = "summary > *, p.call > *, p, li, td, th, pre, div, h4, h5, h6";
  function readTexts() {
    texts = new Map(entries.map((entry) => [entry, { nodes: [], starts: [], text: "", block: null }]));
    const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const entry = node.parentElement.closest(".e");
      const known = entry && texts.get(entry);
      if (!known || node.parentElement.matches(".n, .m")) continue;
      const block = node.parentElement.closest(APART);
      if (known.text && block !== known.block) known.text += "\n";
      known.block = block;
      known.nodes.push(node);
      known.starts.push(known.text.length);
      known.text += node.data;
    }
  }
  function rangeOf(known, start, end) {
    const at = (place) => {
      let low = 0, high = known.starts.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (known.starts[middle] <= place) low = middle; else high = middle - 1;
      }
      return [known.nodes[low], Math.min(place - known.starts[low], known.nodes[low].length)];
    };
    const range = new Range();
    range.setStart(...at(start));
    const [node, offset] = at(end - 1);
    range.setEnd(node, Math.min(offset + 1, node.length));
    return range;
  }
  const marks = "highlights" in CSS ? { every: new Highlight(), now: new Highlight() } : null;
  if (marks) { CSS.highlights.set("found", marks.every); CSS.highlights.set("found-now", marks.now); marks.now.priority = 1; }

  function search() {
    const query = $("query").value;
    hits = []; hit = -1;
    matching.clear();
    marks?.every.clear(); marks?.now.clear();
    if (query) {
      if (!texts) readTexts();
      const pattern = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+"), "gi");
      for (const entry of entries) {
        const known = texts.get(entry);
        for (const match of known.text.matchAll(pattern)) hits.push([entry, match.index, match.index + match[0].length]);
        if (hits.length && hits[hits.length - 1][0] === entry) for (let up = entry; up; up = up.parentElement.closest(".e")) matching.add(up);
      }
      if (marks) for (const [entry, start, end] of hits.slice(0, MOST_MARKS)) marks.every.add(rangeOf(texts.get(entry), start, end));
    }
    if ($("matching").checked) filter();
    tellHits();
  }
  function tellHits() {
    const none = !hits.length;
    $("found").textContent = !$("query").value ? "" : hit < 0 ? number(hits.length) : `${number(hit + 1)} of ${number(hits.length)}`;
    $("earlier").disabled = $("later").disabled = none;
  }
  function nextHit(by) {
    if (!hits.length) return;
    hit = (hit + by + hits.length + (hit < 0 && by < 0 ? 1 : 0)) % hits.length;
    const [entry, start, end] = hits[hit];
    const range = rangeOf(texts.get(entry), start, end);
    reveal(range.startContainer.parentElement);
    if (entry.hidden) showEverything();
    marks?.now.clear(); marks?.now.add(range);
    if (current) current.classList.remove("cur");
    current = entry;
    entry.classList.add("cur");
    range.startContainer.parentElement.scrollIntoView({ block: "center" });
    const place = range.getBoundingClientRect();
    if (place.bottom > innerHeight || place.top < 0) scrollBy(0, place.top - innerHeight / 2);
    tellHits();
  }
  let waiting = 0;
  $("query").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 90); });
  $("query").addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      clearTimeout(waiting);
      if (hit < 0) search();
      nextHit(event.shiftKey ? -1 : 1);
      event.preventDefault();
    }
    if (event.key === "Escape") { $("query").value = ""; search(); $("query").blur(); }
  });
  $("earlier").addEventListener("click", () => nextHit(-1));
  $("later").addEventListener("click", () => nextHit(1));

  // --- the model's window

  const panel = $("window");
  const isQuiet = inRuns(data.quiet);
  function inRuns(runs) {
    const ids = new Set();
    for (const [first, last] of runs) for (let id = first; id <= last; id++) ids.add(id);
    return (id) => ids.has(id);
  }
  function windowOf(step) {
    const [reply, number, messages, tokens, counted, shares] = data.steps[step];
    const base = data.bases[number];
    const shown = base.shown.map((run) => [...run]);
    let first = base.next, last = reply - 1;
    while (first <= last && isQuiet(first)) first++;
    while (last >= first && isQuiet(last)) last--;
    if (first <= last) {
      const end = shown[shown.length - 1];
      let joins = end && end[1] < first;
      for (let id = end ? end[1] + 1 : 0; joins && id < first; id++) joins = isQuiet(id);
      if (joins) end[1] = last; else shown.push([first, last]);
    }
    return { reply, base, messages, tokens, counted, shares, shown };
  }
  function link(id, label) {
    const made = make("a", "", label);
    made.href = `#event-${id}`;
    return made;
  }
  function runLinks(runs) {
    const most = 60;
    const links = runs.slice(0, most).flatMap(([first, last]) => [link(first, first === last ? `#${first}` : `#${first}–${last}`), " "]);
    if (runs.length > most) links.push(`and ${number(runs.length - most)} more`);
    return links;
  }
  function countOf(runs) {
    let count = 0;
    for (const [first, last] of runs) for (let id = first; id <= last; id++) count += !isQuiet(id);
    return count;
  }
  const few = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
  function takers(gone) {
    const by = new Map();
    for (const [first, last, taker] of gone) by.set(taker, [...(by.get(taker) || []), [first, last]]);
    return [...by];
  }
  function goneTerms(base) {
    const newest = takers(base.gone).reverse(), most = 6;
    const before = newest.slice(most).reduce((sum, [, runs]) => sum + countOf(runs), 0);
    const rest = before ? [make("dt", "", `${few(before, "event")} taken out before that`)] : [];
    return newest.slice(0, most).flatMap(([taker, runs]) => {
      const told = make("dt", "", `${few(countOf(runs), "event")} taken out by `, link(taker, `#${taker}`));
      return [told, make("dd", "", ...runLinks(runs))];
    }).concat(rest);
  }
  function shareRows(shares, tokens) {
    return data.kinds.flatMap((kind, index) => {
      const value = shares[index];
      if (!value) return [];
      const share = `${Math.round((100 * value) / Math.max(tokens, 1))} %`;
      return [make("i", `c-${kind}`), make("span", "", kind), make("span", "", number(value)), make("span", "", share)];
    });
  }
  function stackOf(shares) {
    const stack = make("div", "stack");
    data.kinds.forEach((kind, index) => {
      if (!shares[index]) return;
      const part = make("i", `c-${kind}`);
      part.style.flexGrow = shares[index];
      stack.append(part);
    });
    return stack;
  }
  let chosen = 0;
  function choose(step) {
    if (!data.steps.length) return;
    chosen = Math.max(0, Math.min(data.steps.length - 1, step));
    const seen = windowOf(chosen);
    const [cached, written, spent] = data.spent[chosen];
    $("at").textContent = chosen + 1;
    $("step").value = chosen + 1;
    const facts = [few(seen.messages, "message"), seen.counted ? `${Math.round((100 * cached) / Math.max(seen.tokens, 1))} % from the cache` : "estimated", `${few(written, "token")} written`];
    if (data.known) facts.push(`$${spent.toFixed(spent < 1 ? 4 : 2)} so far`);
    const runs = make("dl", "runs",
      make("dt", "", `It carried ${few(countOf(seen.shown), "event")}`), make("dd", "", ...runLinks(seen.shown)),
      ...(seen.base.masked.length ? [make("dt", "", "Shortened, to be recalled by their numbers"), make("dd", "", ...runLinks(seen.base.masked))] : []),
      ...goneTerms(seen.base),
      make("dt", "", "The reply to it"), make("dd", "", link(seen.reply, `#${seen.reply}`)));
    $("contents").replaceChildren(
      make("p", "big", number(seen.tokens), make("small", "", " tokens")), make("p", "soft", facts.join(" · ")),
      stackOf(seen.shares), make("div", "shares", ...shareRows(seen.shares, seen.tokens)), runs);
    for (const cursor of all(".cursor")) cursor.style.left = `${(100 * (chosen + 0.5)) / data.steps.length}%`;
    document.querySelector(".step.at")?.classList.remove("at");
    steps[chosen]?.classList.add("at");
    shade(seen);
  }
  function shade(seen) {
    const on = $("shade").checked;
    main.classList.toggle("shaded", on);
    if (!on) return;
    const carried = inRuns(seen.shown), masked = inRuns(seen.base.masked);
    for (const entry of entries) {
      const id = Number(entry.id.replace("event-", ""));
      // Those of children have another number, and are no part of it.
      entry.classList.toggle("in", Number.isNaN(id) || (carried(id) && !isQuiet(id)));
      entry.classList.toggle("masked", masked(id));
    }
  }
  let opener = null;
  function openWindow(step, from) {
    choose(step);
    opener = from || document.activeElement;
    panel.classList.add("open");
    panel.focus({ preventScroll: true });
  }
  function closeWindow() {
    if (!panel.classList.contains("open")) return;
    panel.classList.remove("open");
    opener?.focus({ preventScroll: true });
  }
  main.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-step]");
    if (button) openWindow(Number(button.dataset.step) - 1, button);
  });
  $("step").addEventListener("input", () => choose(Number($("step").value) - 1));
  $("step").addEventListener("change", () => steps[chosen]?.scrollIntoView());
  $("shade").addEventListener("change", () => choose(chosen));
  $("close").addEventListener("click", closeWindow);
  for (const canvas of all(".canvas")) {
    const stepAt = (event) => {
      const place = canvas.getBoundingClientRect();
      return Math.floor((data.steps.length * (event.clientX - place.left)) / place.width);
    };
    canvas.addEventListener("pointermove", (event) => choose(stepAt(event)));
    canvas.addEventListener("click", (event) => { choose(stepAt(event)); steps[chosen]?.scrollIntoView(); });
  }

  // --- keys

  function toggle() {
    const fold = current?.querySelector("details");
    if (fold) fold.open = !fold.open;
  }
  const KEYS = {
    j: () => move(1), k: () => move(-1), n: () => moveStep(1), p: () => moveStep(-1),
    e: unfoldAll, t: redress, "?": () => $("help").showModal(),
    "/": () => $("query").select(),
    w: () => openWindow(steps.indexOf(near()?.closest(".step") ?? steps[Math.min(firstInView(steps), steps.length - 1)])),
    Escape: closeWindow,
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("#query, dialog")) return;
    if (event.key === "Enter" && event.target === current) toggle();
    else if (Object.hasOwn(KEYS, event.key)) KEYS[event.key]();
    else return;
    event.preventDefault();
  });
  $("unfold").addEventListener("click", unfoldAll);
  $("theme").addEventListener("click", redress);
  $("keys").addEventListener("click", () => $("help").showModal());
  $("leave").addEventListener("click", () => $("help").close());

  if (!data.steps.length) panel.hidden = true;
  else choose(data.steps.length - 1);
  if (location.hash) followHash();
})();
