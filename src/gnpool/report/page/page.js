"use strict";
(function () {
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);

  function draw(parent, name, attributes, content) {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (content !== undefined) element.textContent = content;
    parent.appendChild(element);
    return element;
  }

  // Light and dark.
  const root = document.documentElement;
  const themeButton = byId("theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  function showTheme() {
    themeButton.textContent = dark() ? "Light" : "Dark";
    themeButton.setAttribute("aria-label", "Switch to " + (dark() ? "light" : "dark") + " colours");
  }
  try { if (localStorage.getItem("gnpool-theme")) root.dataset.theme = localStorage.getItem("gnpool-theme"); } catch (e) { /* no storage here */ }
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("gnpool-theme", root.dataset.theme); } catch (e) { /* not kept, then */ }
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  showTheme();

  // Charts: what is under the pointer, or chosen by the arrow keys.
  const tip = byId("tip");
  const said = byId("said");
  function pointsOf(chart) {
    if (!chart.points) {
      chart.points = [...chart.querySelectorAll(".series")].map((series) => {
        const tips = (series.dataset.tips || "").split("|");
        const places = series.querySelector(".line").getAttribute("d").slice(1).split("L");
        return places.filter(Boolean).map((place, k) => {
          const [x, y] = place.split(",").map(Number);
          return { x, y, kind: series.getAttribute("class"), words: series.dataset.name + ", " + tips[k] };
        });
      }).filter((points) => points.length);
    }
    return chart.points;
  }
  function show(chart, point, speak) {
    hide(chart);
    const group = draw(chart, "g", { class: point.kind + " pointer" });
    draw(group, "circle", { cx: point.x, cy: point.y, r: 5, class: "here" });
    const box = chart.getBoundingClientRect();
    const scale = box.width / chart.viewBox.baseVal.width;
    tip.textContent = point.words;
    tip.hidden = false;
    const left = box.left + point.x * scale + 12;
    const above = box.top + point.y * scale - tip.offsetHeight - 10;
    tip.style.left = Math.max(6, Math.min(left, innerWidth - tip.offsetWidth - 6)) + "px";
    tip.style.top = (above < 6 ? box.top + point.y * scale + 14 : above) + "px";
    if (speak) said.textContent = point.words;
  }
  function hide(chart) {
    tip.hidden = true;
    const old = chart.querySelector(".pointer");
    if (old) old.remove();
  }
  for (const chart of document.querySelectorAll("svg.chart")) {
    chart.addEventListener("pointermove", (event) => {
      const box = chart.getBoundingClientRect();
      const scale = box.width / chart.viewBox.baseVal.width;
      const x = (event.clientX - box.left) / scale, y = (event.clientY - box.top) / scale;
      let best = null, least = 40 * 40;
      for (const points of pointsOf(chart)) for (const point of points) {
        const far = (point.x - x) ** 2 + (point.y - y) ** 2;
        if (far <= least) { least = far; best = point; }
      }
      if (best) show(chart, best, false); else hide(chart);
    });
    chart.addEventListener("pointerleave", () => hide(chart));
    chart.addEventListener("blur", () => hide(chart));
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] }[event.key];
      if (event.key === "Escape") hide(chart);
      const lines = pointsOf(chart);
      if (!step || !lines.length) return;
      event.preventDefault();
      const at = chart.at || [lines.length - 1, -step[1]];  // the last is drawn on top: GNP
      const line = (at[0] + step[0] + lines.length) % lines.length;
      const place = Math.max(0, Math.min(lines[line].length - 1, at[1] + step[1]));
      chart.at = [line, place];
      show(chart, lines[line][place], true);
    });
  }
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // The plane of poolings.
  const source = byId("plane-data");
  if (!source) return;
  const { box, names, start, walks } = JSON.parse(source.textContent);
  const plane = byId("plane-svg"), handle = byId("handle"), paths = byId("plane-paths");
  const sliderP = byId("slider-p"), sliderGrowth = byId("slider-growth");
  const BIG = 200;  // from here on p counts as infinite
  const state = { at: 1, growth: 1 };  // at: p on the even scale of the drawing, from -2 to 2

  const even = (p) => Math.abs(p) <= 1 ? p : Math.sign(p) * (2 - 1 / Math.abs(p));
  const within = (value, low, high) => Math.max(low, Math.min(high, value));
  function exponent() {
    const size = Math.abs(state.at);
    return size <= 1 ? state.at : Math.sign(state.at) * (size >= 2 - 1 / BIG ? Infinity : 1 / (2 - size));
  }
  const place = (at) => box.left + (2 + at) / 4 * (box.width - box.left - box.right);
  const across = (p) => place(even(p));
  const down = (growth) => box.height - box.bottom - (growth - box.low) / (box.high - box.low) * (box.height - box.top - box.bottom);
  const sized = (value, digits) => {
    if (Math.abs(value) === Infinity || Math.abs(value) >= 1e8) return (value < 0 ? "−" : "") + "∞";
    const size = Math.abs(value), text = size >= 1e4 || (size < 0.001 && size > 0) ? value.toExponential(1)
      : value.toFixed(size >= 100 ? 0 : size >= 10 ? Math.min(digits, 1) : digits);
    return text.replace("-", "−");
  };

  function pool(values, p, growth) {
    const n = values.length;
    if (Math.abs(p) < 1e-6) return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / n) * n ** growth;
    const top = p > 0 ? Math.max(...values) : Math.min(...values);
    if (Math.abs(p) === Infinity) return top * n ** growth;
    let total = 0;
    for (const value of values) total += (value / top) ** p;
    return top * (total / n) ** (1 / p) * n ** growth;
  }

  function numbers(seed, count) {  // the same values on every machine, between 1 and 5
    const found = [];
    for (let k = 0; k < count; k++) {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      found.push(1 + 4 * seed / 4294967296);
    }
    return found;
  }
  let seed = 7, values = numbers(seed, 6);
  const many = numbers(11, 1000);
  const counts = [1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 45, 64, 90, 128, 180, 256, 362, 512, 724, 1000];

  function nearest(p, growth) {
    let best = null, least = Infinity;
    for (const named of names) {
      const far = Math.hypot(even(p) - even(named.p), growth - named.growth);
      if (far < least) { least = far; best = named; }
    }
    return [best, least];
  }

  function drawBars(p, growth) {
    const chart = byId("bars");
    chart.replaceChildren();
    const result = pool(values, p, growth), top = Math.max(result, ...values) * 1.12, floor = 128;
    const height = (value) => floor - value / top * (floor - 8);
    values.forEach((value, k) => {
      draw(chart, "rect", { x: 6 + 38 * k, y: height(value), width: 28, height: floor - height(value), class: "column" });
      draw(chart, "text", { x: 20 + 38 * k, y: floor + 15, class: "tick middle" }, value.toFixed(1));
    });
    draw(chart, "line", { x1: 0, x2: 240, y1: floor, y2: floor, class: "axis" });
    draw(chart, "line", { x1: 0, x2: 240, y1: height(result), y2: height(result), class: "pooled" });
    draw(chart, "text", { x: 248, y: Math.max(14, height(result) + 5), class: "pooled-text" }, sized(result, 2));
    chart.setAttribute("aria-label", "Six values, " + values.map((value) => value.toFixed(1)).join(", ") + ", pooled to " + sized(result, 2));
  }

  function drawGrowth(p, growth) {
    const chart = byId("growth");
    chart.replaceChildren();
    const left = 50, right = 240, top = 8, floor = 134, low = -2, high = 4;
    const x = (n) => left + Math.log10(n) / 3 * (right - left);
    const y = (value) => floor - (Math.max(low, Math.min(high, Math.log10(value))) - low) / (high - low) * (floor - top);
    for (const tick of [0.01, 1, 100, 10000]) {
      draw(chart, "line", { x1: left, x2: right, y1: y(tick), y2: y(tick), class: "grid" });
      draw(chart, "text", { x: left - 6, y: y(tick) + 4, class: "tick end" }, tick.toLocaleString("en"));
    }
    draw(chart, "rect", { x: left, width: right - left, y: y(5), height: y(1) - y(5), class: "column" });
    for (const tick of [1, 10, 100, 1000]) draw(chart, "text", { x: x(tick), y: floor + 16, class: "tick middle" }, tick.toLocaleString("en"));
    draw(chart, "text", { x: (left + right) / 2, y: floor + 32, class: "name middle" }, "number of elements, n");
    const results = counts.map((n) => pool(many.slice(0, n), p, growth));
    draw(chart, "path", { d: "M" + counts.map((n, k) => x(n).toFixed(1) + "," + y(results[k]).toFixed(1)).join("L"), class: "pool-line" });
    const last = results[results.length - 1], end = Math.max(14, y(last) + 4), band = y(2.2) + 4;
    draw(chart, "text", { x: right + 8, y: end, class: "pooled-text" }, sized(last, 2));
    draw(chart, "text", { x: right + 8, y: Math.abs(band - end) > 14 ? band : end + 14, class: "tick" }, "the values");
    chart.setAttribute("aria-label", "The result is " + sized(results[0], 2) + " for one element and " + sized(last, 2) + " for 1000");
  }

  function update() {
    const p = exponent(), growth = state.growth;
    handle.setAttribute("transform", "translate(" + place(state.at).toFixed(1) + " " + down(growth).toFixed(1) + ")");
    const [near, far] = nearest(p, growth);
    const words = "p " + sized(p, 2) + ", growth " + sized(growth, 2);
    const name = far < 0.004 ? "this is the " + near.name : far < 0.1 ? "about the " + near.name : "nearest name: " + near.name;
    handle.setAttribute("aria-valuenow", Math.round(100 * state.at));
    handle.setAttribute("aria-valuetext", words + ", " + name);
    byId("reading-values").textContent = "p = " + sized(p, 2) + ", growth = " + sized(growth, 2) + ": ";
    byId("reading-name").textContent = name + ".";
    byId("reading-growth").textContent = Math.abs(growth) < 0.005 ? "It does not grow with n." : "It grows like n to the power " + sized(growth, 2) + ".";
    if (document.activeElement !== sliderP) sliderP.value = 100 * state.at;
    sliderP.setAttribute("aria-valuetext", sized(p, 2));
    sliderGrowth.value = growth;
    byId("out-p").textContent = sized(p, 2);
    byId("out-growth").textContent = sized(growth, 2);
    drawBars(p, growth);
    drawGrowth(p, growth);
  }
  function moved(at, growth) {
    state.at = within(at, -2, 2);
    state.growth = within(growth, box.low, box.high);
    update();
  }
  const setTo = (p, growth) => moved(even(p), growth);
  function moveTo(event) {
    const frame = plane.getBoundingClientRect(), scale = frame.width / box.width;
    const x = (event.clientX - frame.left) / scale, y = (event.clientY - frame.top) / scale;
    for (const named of names)  // names attract the pointer
      if (Math.hypot(across(named.p) - x, down(named.growth) - y) < 7) return setTo(named.p, named.growth);
    const share = (box.height - box.bottom - y) / (box.height - box.top - box.bottom);
    moved(4 * (x - box.left) / (box.width - box.left - box.right) - 2, box.low + share * (box.high - box.low));
  }
  let held = false;
  plane.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || (event.pointerType === "touch" && !handle.contains(event.target))) return;
    held = true;
    handle.classList.add("held");
    plane.setPointerCapture(event.pointerId);
    handle.focus({ preventScroll: true });
    event.preventDefault();
    moveTo(event);
  });
  handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });  // it does not scroll
  plane.addEventListener("pointermove", (event) => { if (held) moveTo(event); });
  for (const name of ["pointerup", "pointercancel"])
    plane.addEventListener(name, () => { held = false; handle.classList.remove("held"); });
  plane.addEventListener("click", moveTo);
  handle.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 0.1 : 0.02;
    const [along, up] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] || [0, 0];
    if (!along && !up) return;
    event.preventDefault();
    const rounded = (value) => Math.round(1000 * value) / 1000;
    moved(rounded(state.at + along * step), rounded(state.growth + up * step));
  });
  sliderP.addEventListener("input", () => moved(Number(sliderP.value) / 100, state.growth));
  sliderGrowth.addEventListener("input", () => moved(state.at, Number(sliderGrowth.value)));
  for (const button of document.querySelectorAll("[data-named]"))
    button.addEventListener("click", () => { const named = names[Number(button.dataset.named)]; setTo(named.p, named.growth); });
  byId("other-values").addEventListener("click", () => { seed += 1; values = numbers(seed * 7919, 6); update(); });

  const chooser = byId("walk");
  const buttons = { pos: byId("learned"), neg: byId("learned-neg"), one: byId("learned-one") };
  const chosen = () => walks[chooser ? Number(chooser.value) : 0] || {};
  const first = () => chosen().one ? "one" : chosen().pos ? "pos" : "neg";
  function showWalk() {
    const walk = chosen();
    if (!walks.length) return;
    paths.replaceChildren();
    for (const [name, kind] of [["one", "c0"], ["pos", "c0"], ["neg", "c1"]]) {
      if (buttons[name]) buttons[name].hidden = !walk[name];
      if (!walk[name]) continue;
      const group = draw(paths, "g", { class: kind });
      for (const flat of walk[name]) {
        const points = [];
        for (let k = 0; k + 1 < flat.length; k += 2) points.push([across(flat[k]), down(flat[k + 1])]);
        if (!points.length) continue;
        draw(group, "path", { d: "M" + points.map((point) => point.map((v) => v.toFixed(1)).join(",")).join("L"), class: "walk" });
        const end = points[points.length - 1];
        draw(group, "circle", { cx: end[0], cy: end[1], r: 3.2, class: "goal" });
      }
    }
  }
  function toEnd(name) {
    const flat = (chosen()[name] || [])[0];
    if (flat && flat.length) setTo(flat[flat.length - 2], flat[flat.length - 1]);
  }
  if (chooser) chooser.addEventListener("change", () => { showWalk(); toEnd(first()); });
  for (const name in buttons) if (buttons[name]) buttons[name].addEventListener("click", () => toEnd(name));
  showWalk();
  update();
  if (walks.length) toEnd(first());
  else if (start !== null) setTo(names[start].p, names[start].growth);
  document.querySelectorAll(".live-only").forEach((element) => { element.hidden = false; });
})();
