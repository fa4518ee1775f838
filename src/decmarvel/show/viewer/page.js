"use strict";
// Watch missions, recorded ones or one in the air. A mission is arrays over moments (0 is take-off); time is a moment, with
// a fraction in between.

const NEVER = 65535;
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#6F6F2E"];
const SINCE = ["known_at", "node_at", "edge_at"];  // news of these are places; the other arrays grow
const KINDS = { uint8: Uint8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array, float32: Float32Array };
const [EXPLORING, RETURNING, HOME, FAILED, ABSENT] = [0, 1, 2, 3, 4];
const $ = (id) => document.getElementById(id);
const colourOf = (robot) => COLOURS[robot % COLOURS.length];

// Missions -----------------------------------------------------------------------------------------------------------

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const facts = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, { kind, shape, at }] of Object.entries(facts.arrays)) {
    const count = shape.reduce((a, b) => a * b, 1);
    arrays[name] = new KINDS[kind](buffer, 4 + length + at, count);
    arrays[name].shape = shape;
  }
  return [facts, arrays];
}

function joined(before, news) {
  const both = new before.constructor(before.length + news.length);
  both.set(before);
  both.set(news, before.length);
  both.shape = [before.shape[0] + news.shape[0], ...news.shape.slice(1)];
  return both;
}

class Mission {
  constructor(facts, arrays) {
    Object.assign(this, facts, arrays);
    [this.moments, this.robots] = this.mode.shape;
    [this.rows, this.columns] = this.free.shape;
    this.last = this.moments - 1;
    this.sites = this.node_at.shape[1];
    this.utilities = { moment: -1, next: 0, value: new Int32Array(this.robots * this.sites ** 2) };
    this.seen = [];
    this.growths = new Map();
    this.note(this.sightings);
  }

  note(sightings) {
    while (this.seen.length < this.moments) this.seen.push([]);
    const width = sightings.shape[1];
    for (let row = 0; row < sightings.shape[0]; row++) {
      const [decision, observer, teammate, y, x, heading] = sightings.subarray(row * width, (row + 1) * width);
      this.seen[decision].push({ observer, teammate, heading, at: this.cellPoint(y, x) });
    }
  }

  // One moment more, of a mission in the air.
  grow({ arrays: places, ...facts }, arrays) {
    Object.assign(this, facts);
    const size = this.rows * this.columns, moment = this.moments;
    if (this.anybody) arrays.known_at.forEach((place) => { this.anybody[place % size] = Math.min(this.anybody[place % size], moment); });
    for (const [name, news] of Object.entries(arrays)) {
      if (SINCE.includes(name)) news.forEach((place) => { this[name][place] = moment; });
      else this[name] = joined(this[name], news);
    }
    this.last = this.moments++;
    this.growths.clear();
    this.note(arrays.sightings);
  }

  get present() { return [...Array(this.robots).keys()].filter((robot) => this.mode[robot] !== ABSENT); }

  // Points are (x, y) in cells of the shown part, y upwards.
  cellPoint(y, x) { return [x - this.corner[1] + 0.5, y - this.corner[0] + 0.5]; }
  sitePoint(row, column) { return this.cellPoint(this.first_site + this.stride * row, this.first_site + this.stride * column); }
  at(moment, robot) {
    const place = 2 * (moment * this.robots + robot);
    return this.sitePoint(this.site[place], this.site[place + 1]);
  }
  of(name, moment, robot) { return this[name][moment * this.robots + robot]; }

  pose(time, robot) {
    const before = Math.min(Math.floor(time), this.last), after = Math.min(before + 1, this.last), share = time - before;
    const [a, b] = [this.at(before, robot), this.at(after, robot)];
    const from = this.of("heading", before, robot), turn = ((this.of("heading", after, robot) - from + 540) % 360) - 180;
    return { at: [a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])], heading: from + share * turn };
  }

  coverage(moment) { return this.covered[moment] / this.floor_cells; }
  travelled(time) {
    const before = Math.floor(time), after = Math.min(before + 1, this.last);
    return Math.max(...this.present.map((robot) => {
      const [start, a, b] = [0, before, after].map((moment) => this.of("budget_mm", moment, robot));
      return (start - a - (time - before) * (b - a)) / 1000;
    }));
  }

  // When a cell became known to one robot, or to any (robot null).
  knownAt(robot) {
    const size = this.rows * this.columns;
    if (robot !== null) return this.known_at.subarray(robot * size, (robot + 1) * size);
    if (!this.anybody) {
      this.anybody = new Uint16Array(size).fill(NEVER);
      for (let place = 0; place < this.known_at.length; place++) {
        const cell = place % size;
        if (this.known_at[place] < this.anybody[cell]) this.anybody[cell] = this.known_at[place];
      }
    }
    return this.anybody;
  }

  // How a map came about: from when until when each cell was a frontier, which is a free one with 2 to 7 unknown cells among
  // the eight around it; and all cells in the order in which they change, those of moment t up to ends[t].
  growth(robot) {
    if (this.growths.has(robot)) return this.growths.get(robot);
    const { rows, columns, free } = this, size = free.length, known = this.knownAt(robot);
    const from = new Uint16Array(size).fill(NEVER), until = new Uint16Array(size);
    const ends = new Uint32Array(this.moments);
    const changes = (cell, take) => {
      take(known[cell]);
      if (from[cell] >= until[cell]) return;
      take(from[cell]);
      if (until[cell] !== NEVER) take(until[cell]);
    };
    for (let cell = 0; cell < size; cell++) {
      if (known[cell] === NEVER) continue;
      if (free[cell]) {
        const row = Math.floor(cell / columns), column = cell % columns;
        let first = NEVER, last = 0, lastButOne = 0;  // of the eight
        for (let y = row - 1; y <= row + 1; y++) {
          for (let x = column - 1; x <= column + 1; x++) {
            if (y === row && x === column) continue;
            const since = y >= 0 && x >= 0 && y < rows && x < columns ? known[y * columns + x] : 0;
            first = Math.min(first, since);
            lastButOne = Math.max(lastButOne, Math.min(last, since));
            last = Math.max(last, since);
          }
        }
        from[cell] = Math.max(known[cell], first);
        until[cell] = lastButOne;
      }
      changes(cell, (moment) => ends[moment]++);
    }
    for (let moment = 1; moment < this.moments; moment++) ends[moment] += ends[moment - 1];
    const cells = new Uint32Array(ends[this.last]), places = ends.slice();
    for (let cell = 0; cell < size; cell++) {
      if (known[cell] !== NEVER) changes(cell, (moment) => { cells[--places[moment]] = cell; });
    }
    this.growths.set(robot, { from, until, cells, ends });
    return this.growths.get(robot);
  }

  // The most probable candidates of a robot in the decision after a moment; none if its planner knows no probabilities.
  candidates(moment, robot) {
    const [decisions, , count] = this.probabilities.shape;
    if (moment >= decisions) return [];
    const [row, column] = this.site.subarray(2 * (moment * this.robots + robot)), first = (moment * this.robots + robot) * count;
    return [...Array(count).keys()].map((rank) => {
      const [choice, heading, parts] = this.probabilities.subarray(3 * (first + rank), 3 * (first + rank) + 3);
      const [dy, dx] = this.slots[Math.floor(choice / 3)];
      return { choice, heading, share: parts / 10000, dy, dx, at: this.sitePoint(row + dy, column + dx) };
    }).filter(({ share }) => share > 0);
  }

  utilityAt(moment) {
    const state = this.utilities;
    if (moment < state.moment) { state.value.fill(0); state.next = 0; }
    const size = this.sites ** 2, rows = this.utility.shape[0];
    while (state.next < rows && this.utility[4 * state.next] <= moment) {
      const [, robot, site, value] = this.utility.subarray(4 * state.next, 4 * state.next + 4);
      state.value[robot * size + site] = value;
      state.next++;
    }
    state.moment = moment;
    return state.value;
  }
}

// A map on a canvas --------------------------------------------------------------------------------------------------

class Pane {
  constructor(mission, parent, captioned) {
    this.mission = mission;
    this.box = parent.appendChild(Object.assign(document.createElement("div"), { className: "pane" }));
    this.canvas = this.box.appendChild(document.createElement("canvas"));
    this.caption = this.box.appendChild(Object.assign(document.createElement("div"), { className: "caption" }));
    this.captioned = captioned;
    this.image = new ImageData(mission.columns, mission.rows);
    this.sheet = Object.assign(document.createElement("canvas"), { width: mission.columns, height: mission.rows });
    this.painted = {};
    this.canvas.addEventListener("click", (event) => this.pick(event));
  }

  pick(event) {
    const [x, y] = [event.offsetX, event.offsetY];
    const found = this.mission.present
      .map((robot) => ({ robot, away: Math.hypot(...this.place(this.mission.pose(this.time(), robot).at).map((v, i) => v - [x, y][i])) }))
      .sort((a, b) => a.away - b.away)[0];
    if (found && found.away < 22) view.select(view.robot === found.robot ? null : found.robot);
  }

  time() { return Math.min(view.time, this.mission.last); }

  place([x, y]) { return [this.left + x * this.scale, this.top + (this.mission.rows - y) * this.scale]; }

  draw() {
    const { mission } = this, time = this.time(), moment = Math.floor(time);
    const box = this.canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    this.scale = Math.min(box.width / mission.columns, box.height / mission.rows);
    this.left = (box.width - this.scale * mission.columns) / 2;
    this.top = (box.height - this.scale * mission.rows) / 2;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = ink("--ground");
    pen.fillRect(0, 0, width, height);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paintMap(moment);
    pen.imageSmoothingEnabled = false;
    pen.save();
    pen.translate(this.left, this.top + this.scale * mission.rows);
    pen.scale(1, -1);  // row 0 of the map is its lowest
    pen.drawImage(this.sheet, 0, 0, this.scale * mission.columns, this.scale * mission.rows);
    pen.restore();
    this.scaleBar(pen, box);
    const robots = mission.present, chosen = view.robot !== null && view.robot < mission.robots ? view.robot : null;
    if (view.layers.graph && chosen !== null) this.drawGraph(pen, moment, chosen);
    const alone = view.whose === "own" ? chosen : null;  // the others are ghosts then: it knows only glimpses of them
    const glimpsed = (mission.seen[Math.ceil(time)] ?? []).filter(({ observer }) => observer === alone).map(({ teammate }) => teammate);
    const each = (draw, clear = []) => robots.forEach((robot) => {
      pen.globalAlpha = alone === null || alone === robot || clear.includes(robot) ? 1 : 0.3;
      draw(robot);
      pen.globalAlpha = 1;
    });
    if (view.layers.trails) each((robot) => this.drawTrail(pen, time, robot));
    each((robot) => this.drawBase(pen, robot));
    if (view.layers.cameras) each((robot) => this.drawCamera(pen, time, robot));
    if (view.layers.sightings) this.drawSightings(pen, time, chosen);
    if (chosen !== null) this.drawCandidates(pen, moment, chosen);
    each((robot) => this.drawTarget(pen, time, robot));
    each((robot) => this.drawRobot(pen, time, robot, chosen === robot), glimpsed);
    const words = `${(100 * mission.coverage(moment)).toFixed(1)}% explored, ${mission.travelled(time).toFixed(0)} m`;
    this.caption.textContent = this.captioned ? `${mission.planner}: ${words}` : words;
  }

  paintMap(moment) {  // only what is new since it was painted last, if it is the same map
    const { mission, image, painted } = this, whose = view.whose === "own" ? view.robot : null, all = view.whose === "truth";
    const wanted = [view.whose, whose, view.layers.frontiers, view.layers.truth, view.dark].join();
    const same = wanted === painted.wanted, [before, after] = [painted.moment, moment].sort((a, b) => a - b);
    if (same && (all || before === after)) return;
    this.painted = { wanted, moment };
    const [ground, floor, wall, unseen, edge] = ["ground", "floor", "wall", "unseen", "frontier"].map((name) => rgb(ink(`--${name}`)));
    const { rows, columns, free } = mission, known = mission.knownAt(whose), { from, until, cells, ends } = mission.growth(whose);
    const dim = view.layers.truth ? unseen : ground, rim = view.layers.frontiers ? edge : floor;
    const pixels = new Uint32Array(image.data.buffer);
    const paint = (cell) => {
      if (all) pixels[cell] = free[cell] ? floor : touches(free, Math.floor(cell / columns), cell % columns, rows, columns) ? wall : ground;
      else if (known[cell] > moment) pixels[cell] = free[cell] ? dim : ground;
      else if (!free[cell]) pixels[cell] = wall;
      else pixels[cell] = from[cell] <= moment && moment < until[cell] ? rim : floor;
    };
    if (same) for (let place = ends[before]; place < ends[after]; place++) paint(cells[place]);
    else for (let cell = 0; cell < free.length; cell++) paint(cell);
    this.sheet.getContext("2d").putImageData(image, 0, 0);
  }

  line(pen, points, { colour, width = 2, dash = [], alpha = 1, ends = "round" }) {
    pen.save();
    Object.assign(pen, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha * pen.globalAlpha, lineJoin: "bevel", lineCap: ends });
    pen.setLineDash(dash);
    pen.beginPath();
    points.forEach((point, index) => (index ? pen.lineTo(...this.place(point)) : pen.moveTo(...this.place(point))));
    pen.stroke();
    pen.restore();
  }

  dot(pen, point, radius, colour, alpha = 1) {
    pen.save();
    Object.assign(pen, { fillStyle: colour, globalAlpha: alpha });
    pen.beginPath();
    pen.arc(...this.place(point), radius, 0, 2 * Math.PI);
    pen.fill();
    pen.restore();
  }

  beside(robot, [x, y]) {  // a little beside the sites, so that robots on the same edge do not hide each other
    const away = 0.25 * this.mission.stride * ((robot + 0.5) / this.mission.robots - 0.5);
    return [x + away, y - away];
  }

  drawTrail(pen, time, robot) {
    const { mission } = this, points = [];
    for (let moment = 0; moment <= time; moment++) points.push(this.beside(robot, mission.at(moment, robot)));
    points.push(this.beside(robot, mission.pose(time, robot).at));
    this.line(pen, points, { colour: colourOf(robot), width: 2, alpha: 0.75, dash: robot < COLOURS.length ? [] : [5, 4], ends: "butt" });
  }

  drawBase(pen, robot) {
    const point = this.mission.sitePoint(this.mission.base[2 * robot], this.mission.base[2 * robot + 1]);
    const [x, y] = this.place(point), side = 6;
    pen.save();
    Object.assign(pen, { fillStyle: ink("--card"), strokeStyle: colourOf(robot), lineWidth: 2 });
    pen.fillRect(x - side, y - side, 2 * side, 2 * side);
    pen.strokeRect(x - side, y - side, 2 * side, 2 * side);
    pen.restore();
  }

  drawCamera(pen, time, robot) {
    const { mission } = this, moment = Math.min(Math.floor(time), mission.last);
    if (mission.of("mode", moment, robot) > RETURNING) return;
    const { at, heading } = mission.pose(time, robot), half = mission.fov_deg / 2, edge = [at];
    for (let angle = heading - half; angle <= heading + half; angle += 2) edge.push(this.reach(at, (angle * Math.PI) / 180));
    pen.save();
    pen.beginPath();
    edge.forEach((point, index) => (index ? pen.lineTo(...this.place(point)) : pen.moveTo(...this.place(point))));
    pen.closePath();
    const whole = pen.globalAlpha;
    Object.assign(pen, { fillStyle: colourOf(robot), globalAlpha: 0.22 * whole });
    pen.fill();
    Object.assign(pen, { strokeStyle: colourOf(robot), globalAlpha: 0.6 * whole, lineWidth: 1 });
    pen.stroke();
    pen.restore();
  }

  reach([x, y], angle) {  // as far as the camera sees in a direction: to the first wall
    const { mission } = this, [dx, dy] = [Math.cos(angle), Math.sin(angle)];
    for (let length = 0.5; length <= mission.range_cells; length += 0.5) {
      const [column, row] = [Math.floor(x + length * dx), Math.floor(y + length * dy)];
      const inside = row >= 0 && column >= 0 && row < mission.rows && column < mission.columns;
      if (!inside || !mission.free[row * mission.columns + column]) return [x + length * dx, y + length * dy];
    }
    return [x + mission.range_cells * dx, y + mission.range_cells * dy];
  }

  drawSightings(pen, time, chosen) {
    const { mission } = this, newest = Math.ceil(time);
    for (const { observer, teammate, at } of mission.seen[newest] ?? []) {
      if (chosen !== null && observer !== chosen) continue;
      this.line(pen, [mission.pose(time, observer).at, at], { colour: colourOf(teammate), width: 2.5, dash: [2, 5] });
      this.ring(pen, at, 13, colourOf(observer), 2.5);
    }
    if (chosen === null) return;
    for (let age = 0; age < mission.history; age++) {  // what it remembers of where it saw whom
      for (const { observer, teammate, at } of mission.seen[Math.floor(time) - age] ?? []) {
        if (observer === chosen) this.ring(pen, at, 5, colourOf(teammate), 2, 1 - age / mission.history);
      }
    }
  }

  ring(pen, point, radius, colour, width, alpha = 1) {
    pen.save();
    Object.assign(pen, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha * pen.globalAlpha });
    pen.beginPath();
    pen.arc(...this.place(point), radius, 0, 2 * Math.PI);
    pen.stroke();
    pen.restore();
  }

  drawTarget(pen, time, robot) {
    const { mission } = this, moment = Math.floor(time);
    if (moment >= mission.last || mission.of("move_mode", moment, robot) !== EXPLORING) return;
    const target = mission.at(moment + 1, robot);
    this.line(pen, [mission.pose(time, robot).at, target], { colour: colourOf(robot), width: 1.5, dash: [3, 3] });
    this.ring(pen, target, 4, colourOf(robot), 2);
  }

  drawCandidates(pen, moment, robot) {  // an arrow for each candidate: where it would look from there, as long as it is probable
    for (const { at, heading, share } of this.mission.candidates(moment, robot)) {
      const [x, y] = this.place(at), angle = (-heading * Math.PI) / 180, length = 10 + 26 * Math.sqrt(share);
      pen.save();
      pen.translate(x, y);
      pen.rotate(angle);
      Object.assign(pen, { strokeStyle: ink("--accent"), fillStyle: ink("--accent"), lineWidth: 3, globalAlpha: 0.35 + 0.65 * share });
      pen.beginPath();
      pen.moveTo(0, 0);
      pen.lineTo(length - 6, 0);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(length, 0);
      pen.lineTo(length - 9, 5);
      pen.lineTo(length - 9, -5);
      pen.fill();
      pen.restore();
    }
  }

  drawRobot(pen, time, robot, chosen) {
    const { mission } = this, moment = Math.floor(time), mode = mission.of("mode", moment, robot);
    const { at, heading } = mission.pose(time, robot), [x, y] = this.place(at), size = 9;
    pen.save();
    pen.translate(x, y);
    if (chosen) {
      Object.assign(pen, { strokeStyle: ink("--ink"), lineWidth: 2 });
      pen.beginPath();
      pen.arc(0, 0, size + 6, 0, 2 * Math.PI);
      pen.stroke();
    }
    if (mode === FAILED) {  // a cross, which leaves the number to be read
      Object.assign(pen, { strokeStyle: ink("--ink"), lineWidth: 4 });
      pen.beginPath();
      for (const sign of [1, -1]) { pen.moveTo(-size - 3, sign * (-size - 3)); pen.lineTo(size + 3, sign * (size + 3)); }
      pen.stroke();
    }
    Object.assign(pen, { fillStyle: colourOf(robot), strokeStyle: "#ffffff", lineWidth: 1.5, globalAlpha: pen.globalAlpha * (mode === HOME ? 0.7 : 1) });
    pen.beginPath();
    pen.arc(0, 0, size, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
    if (mode <= RETURNING) {  // a nose
      const angle = (-heading * Math.PI) / 180;
      pen.beginPath();
      pen.moveTo((size + 6) * Math.cos(angle), (size + 6) * Math.sin(angle));
      for (const side of [0.5, -0.5]) pen.lineTo(size * Math.cos(angle + side), size * Math.sin(angle + side));
      pen.closePath();
      pen.fill();
    }
    Object.assign(pen, { fillStyle: "#ffffff", font: "bold 11px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
    pen.fillText(robot + 1, 0, 0.5);
    const word = { [RETURNING]: "going home", [FAILED]: "broken" }[mode];
    if (word) {
      Object.assign(pen, { fillStyle: ink("--ink"), font: "600 11px system-ui, sans-serif", strokeStyle: ink("--card"), lineWidth: 3 });
      pen.strokeText(word, 0, size + 15);
      pen.fillText(word, 0, size + 15);
    }
    pen.restore();
  }

  drawGraph(pen, moment, robot) {
    const { mission } = this, { sites, slots } = mission, size = sites ** 2, utility = mission.utilityAt(moment);
    pen.save();
    Object.assign(pen, { strokeStyle: colourOf(robot), lineWidth: 1, globalAlpha: 0.35 });
    pen.beginPath();
    for (let slot = 0; slot < 12; slot++) {
      if (Math.max(Math.abs(slots[slot][0]), Math.abs(slots[slot][1])) > 1) continue;  // the short ones show where one can go
      for (let place = 0; place < size; place++) {
        if (mission.edge_at[(robot * 12 + slot) * size + place] > moment) continue;
        const [row, column] = [Math.floor(place / sites), place % sites];
        pen.moveTo(...this.place(mission.sitePoint(row, column)));
        pen.lineTo(...this.place(mission.sitePoint(row + slots[slot][0], column + slots[slot][1])));
      }
    }
    pen.stroke();
    pen.restore();
    for (let place = 0; place < size; place++) {
      if (mission.node_at[robot * size + place] > moment) continue;
      const point = mission.sitePoint(Math.floor(place / sites), place % sites), worth = utility[robot * size + place];
      this.dot(pen, point, worth ? 3 + Math.min(7, Math.sqrt(worth)) : 1.8, worth ? ink("--frontier") : colourOf(robot), worth ? 0.85 : 0.7);
    }
  }

  scaleBar(pen, box) {
    const { mission } = this, wanted = (mission.columns * mission.cell_m) / 5;
    const metres = [1, 2, 5, 10, 20, 50, 100, 200].filter((length) => length <= wanted).pop() ?? 1;
    const length = (metres / mission.cell_m) * this.scale, [x, y] = [12, box.height - 12];
    pen.save();
    Object.assign(pen, { fillStyle: ink("--card"), font: "12px system-ui, sans-serif", textBaseline: "bottom", globalAlpha: 0.82 });
    pen.fillRect(x - 5, y - 24, Math.max(length, pen.measureText(`${metres} m`).width) + 10, 29);
    Object.assign(pen, { fillStyle: ink("--ink"), globalAlpha: 1 });
    pen.fillRect(x, y - 4, length, 4);
    pen.fillText(`${metres} m`, x, y - 6);
    pen.restore();
  }
}

function touches(free, y, x, rows, columns) {
  for (let dy = -1; dy <= 1; dy++) {
    for (let dx = -1; dx <= 1; dx++) {
      const [row, column] = [y + dy, x + dx];
      if (row >= 0 && column >= 0 && row < rows && column < columns && free[row * columns + column]) return true;
    }
  }
  return false;
}

// Charts -------------------------------------------------------------------------------------------------------------

class Chart {
  constructor(canvas, most, curves, goal) {
    Object.assign(this, { canvas, most, curves, goal, sheet: document.createElement("canvas"), painted: "" });
    const seek = (event) => view.seek(this.timeAt(event.offsetX));
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); seek(event); });
    canvas.addEventListener("pointermove", (event) => { if (event.buttons) seek(event); });
  }

  timeAt(x) { return (Math.max(0, Math.min(1, (x - this.left) / this.width))) * view.last; }

  draw() {
    const box = this.canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    const wanted = [width, height, view.last, view.robot, view.dark].join();
    if (wanted !== this.painted) {
      this.painted = wanted;
      for (const each of [this.canvas, this.sheet]) Object.assign(each, { width, height });
      this.paint(box, ratio);
    }
    const pen = this.canvas.getContext("2d"), at = this.left + (view.time / Math.max(1, view.last)) * this.width;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.drawImage(this.sheet, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = ink("--accent");
    pen.fillRect(at - 1, 2, 2, box.height - 18);
  }

  paint(box, ratio) {  // all but the time
    const pen = this.sheet.getContext("2d"), bottom = box.height - 16, top = 6;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.left = 48;
    this.width = box.width - this.left - 16;
    const x = (time) => this.left + (time / Math.max(1, view.last)) * this.width;
    const y = (value) => bottom - (value / this.most) * (bottom - top);
    Object.assign(pen, { font: "11px system-ui, sans-serif", fillStyle: ink("--faint"), strokeStyle: ink("--line"), lineWidth: 1 });
    for (const share of [0, 0.5, 1]) {
      const value = share * this.most;
      pen.beginPath();
      pen.moveTo(this.left, y(value));
      pen.lineTo(this.left + this.width, y(value));
      pen.stroke();
      Object.assign(pen, { textAlign: "right", textBaseline: "middle" });
      pen.fillText(this.most === 1 ? `${100 * value}%` : `${value.toFixed(0)} m`, this.left - 5, y(value));
    }
    Object.assign(pen, { textAlign: "center", textBaseline: "alphabetic" });
    for (const share of [0, 0.5, 1]) pen.fillText(Math.round(share * view.last), x(share * view.last), box.height - 3);
    if (this.goal) {
      pen.setLineDash([4, 3]);
      pen.beginPath();
      pen.moveTo(this.left, y(this.goal));
      pen.lineTo(this.left + this.width, y(this.goal));
      pen.stroke();
      pen.setLineDash([]);
    }
    for (const { values, colour, dash = [], width = 2, faint } of this.curves()) {
      pen.save();
      pen.setLineDash(dash);
      Object.assign(pen, { strokeStyle: colour, lineWidth: width, globalAlpha: faint ? 0.25 : 1 });
      pen.beginPath();
      values.forEach((value, moment) => (moment ? pen.lineTo(x(moment), y(value)) : pen.moveTo(x(moment), y(value))));
      pen.stroke();
      pen.restore();
    }
  }
}

// The page -----------------------------------------------------------------------------------------------------------

const style = () => getComputedStyle(document.documentElement);
let inks = {};
function ink(name) { return (inks[name] ??= style().getPropertyValue(name).trim()); }
function rgb(hex) {  // as a pixel
  const value = parseInt(hex.slice(1), 16);
  return (255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16);
}

const view = {
  missions: [], panes: [], charts: [], time: 0, last: 0, playing: false, live: null, following: false, robot: null, whose: "team", dark: false, due: true,
  layers: { trails: true, cameras: true, sightings: true, frontiers: true, graph: false, truth: true },

  refresh() { this.due = true; },
  seek(time) {  // to the newest moment of a mission in the air: and follow it
    this.time = Math.max(0, Math.min(this.last, time));
    this.following = this.flying && this.time === this.last;
    this.refresh();
  },
  step(by) { this.pause(); this.seek((by > 0 ? Math.floor(this.time + 1e-6) : Math.ceil(this.time - 1e-6)) + by); },
  play() {
    if (this.time >= this.last && this.flying) return this.seek(this.last);
    if (this.time >= this.last) this.time = 0;
    this.playing = true;
    this.refresh();
  },
  pause() { this.playing = this.following = false; this.refresh(); },
  toggle() { this.playing || this.following ? this.pause() : this.play(); },
  select(robot) {
    this.robot = robot;
    if (robot === null && this.whose === "own") this.whose = "team";
    this.refresh();
  },
  look(whose) {
    if (whose === "own" && this.robot === null) this.robot = this.missions[0].present[0];
    this.whose = whose;
    this.refresh();
  },
  layer(name) { this.layers[name] = !this.layers[name]; this.refresh(); },
  theme(dark) {
    this.dark = dark;
    document.documentElement.classList.toggle("dark", dark);
    inks = {};
    this.refresh();
  },

  // A mission in the air, and how it reaches the page: "live", "lost" or "over".
  get flying() { return this.live !== null && this.live !== "over"; },
  tune(live) {
    if (live === "over" && this.following) this.playing = true;  // what is left, at leisure
    if (live === "over") this.following = false;
    this.live = live;
    this.last = this.missions[0].last;
    $("time").max = this.last;
    describe();
    this.refresh();
  },

  frame(now) {
    if (this.time < this.last && (this.playing || this.following)) {
      const speed = Number($("speed").value), behind = this.last - this.time;
      const pace = this.following ? Math.max(speed, behind) : speed;  // never much more than a second behind
      this.time = Math.min(this.last, this.time + ((now - this.before) / 1000) * pace);
      this.due = true;
    }
    if (this.playing && this.time >= this.last) {
      this.playing = false;
      this.following = this.flying;
      this.due = true;
    }
    this.before = now;
    if (this.due) {
      this.due = false;
      this.draw();
    }
    requestAnimationFrame((later) => this.frame(later));
  },

  draw() {
    for (const each of [...this.panes, ...this.charts]) each.draw();
    $("time").value = this.time;
    $("when").textContent = `decision ${Math.floor(this.time + 1e-6)} of ${this.last}`;
    $("play").textContent = this.playing || this.following ? "❚❚" : "▶";
    Object.assign($("live"), { hidden: !this.live, textContent: { live: "live", lost: "no connection", over: "mission over" }[this.live] ?? "" });
    $("live").dataset.state = this.live;
    $("live").setAttribute("aria-pressed", this.following);
    for (const button of $("whose").children) button.setAttribute("aria-checked", button.value === this.whose);
    for (const button of $("layers").children) button.setAttribute("aria-pressed", this.layers[button.value]);
    const notes = this.missions.map((mission) => whoseNote(mission, this.whose, this.robot ?? 0));
    const agree = notes.every((note) => note === notes[0]);
    $("whose-note").textContent = agree ? notes[0] : notes.map((note, number) => `${this.missions[number].planner}: ${note}`).join(" ");
    drawTeam();
    drawCandidates();
  },
};

function whoseNote({ radio, heard }, whose, robot) {
  const alone = `What robot ${robot + 1} has seen itself.`;
  if (whose === "truth") return "The building as it is.";
  if (whose === "team") return `Everything that anybody has seen. ${radio ? "All robots know it, by radio." : "No robot knows it: they never talk."}`;
  if (!radio) return `${alone} This is all it decides from.`;
  return heard ? `What robot ${robot + 1} knows, by radio from the others, too.` : `${alone} It decides from what all have seen: they have a radio.`;
}

const MODES = { [EXPLORING]: "exploring", [RETURNING]: "going home", [HOME]: "home", [FAILED]: "broken" };

function drawTeam() {
  const mission = view.missions[0], moment = Math.min(Math.floor(view.time), mission.last);
  const most = Math.max(...mission.budget_mm.subarray(0, mission.robots));
  for (const row of $("team").querySelectorAll(".robot")) {
    const robot = Number(row.value), mode = mission.of("mode", moment, robot);
    const [left, home] = ["budget_mm", "home_mm"].map((name) => mission.of(name, moment, robot));
    row.setAttribute("aria-pressed", view.robot === robot);
    row.querySelector(".state").textContent = MODES[mode];
    row.querySelector(".mode").textContent = `${Math.round(left / 1000)} m left, home ${Math.round(home / 1000)} m`;
    row.querySelector("i").style.transform = `scaleX(${left / most})`;
    row.querySelector("b").style.transform = `translateX(${(100 * home) / most}%)`;
  }
}

const WINDS = ["east", "north-east", "north", "north-west", "west", "south-west", "south", "south-east"];
const wind = (degrees) => WINDS[Math.round((((degrees % 360) + 360) % 360) / 45) % 8];

function drawCandidates() {
  const [mission] = view.missions, moment = Math.floor(view.time + 1e-6), box = $("candidates");
  box.hidden = view.robot === null || view.robot >= mission.robots || !mission.probabilities.shape[2];
  if (box.hidden) return;
  const shown = mission.candidates(moment, view.robot), done = moment < mission.last ? mission.of("move_choice", moment, view.robot) : -1;
  box.querySelector("h2").textContent = `What robot ${view.robot + 1} would do next`;
  box.querySelector("ol").replaceChildren(...shown.map(({ choice, heading, share, dy, dx }) => {
    const metres = Math.hypot(dy, dx) * mission.stride * mission.cell_m, way = wind((Math.atan2(dy, dx) * 180) / Math.PI);
    const row = document.createElement("li"), [words, percent] = [document.createElement("span"), document.createElement("span")];
    words.textContent = `${metres ? `${metres.toFixed(0)} m ${way}` : "stay"}, look ${wind(heading)}`;
    percent.textContent = `${(100 * share).toFixed(0)}%`;
    const bar = document.createElement("i");
    bar.style.width = `${100 * share}%`;
    row.classList.toggle("done", choice === done);
    row.append(words, percent, bar);
    return row;
  }));
  const rest = 1 - shown.reduce((sum, { share }) => sum + share, 0);
  box.querySelector("p").textContent = shown.length ? `Other candidates: ${(100 * Math.max(0, rest)).toFixed(0)}%. Bold: what it did.` : "Nothing to decide.";
}

function describe() {
  const [mission] = view.missions, many = view.missions.length > 1;
  const names = view.missions.map((each) => each.planner).join(" and ");
  const team = mission.present.length, metres = Math.max(...mission.budget_mm.subarray(0, mission.robots)) / 1000;
  $("headline").textContent = `${team} robot${team > 1 ? "s" : ""} explore ${mission.map}`.replace(/robot explore/, "robot explores");
  const reached = mission.metres_to_99 !== null;
  const end = `${mission.success_percent}% ${reached ? `after ${mission.metres_to_99.toFixed(0)} m` : "was not reached"}`;
  const stopped = mission.complete ? "" : ", interrupted";
  const fate = view.flying ? `${reached ? `${end}, ` : ""}in the air` : `${end}${stopped}`;
  $("detail").textContent = `${names}; ${metres.toFixed(0)} m each, seed ${mission.seed}${many ? "" : `; ${fate}`}`;
}

function build() {
  const [mission] = view.missions, many = view.missions.length > 1;
  view.last = Math.max(...view.missions.map((each) => each.last));
  $("time").max = view.last;
  describe();
  view.panes = view.missions.map((each) => new Pane(each, $("stage"), many));
  for (const [value, text] of [["team", "Team"], ["own", "One robot's"], ["truth", "Ground truth"]]) {
    const button = Object.assign(document.createElement("button"), { value, textContent: text, onclick: () => view.look(value) });
    button.setAttribute("role", "radio");
    $("whose").append(button);
  }
  const layers = { trails: "Trails", cameras: "Cameras", sightings: "Sightings", frontiers: "Frontiers", graph: "Graph", truth: "Unseen floor" };
  for (const [value, text] of Object.entries(layers)) {
    $("layers").append(Object.assign(document.createElement("button"), {
      value, textContent: text, onclick: () => { if (value === "graph" && view.robot === null) view.select(mission.present[0]); view.layer(value); },
    }));
  }
  $("team").innerHTML = "<h2>Robots</h2>";
  for (const robot of mission.present) {
    const row = Object.assign(document.createElement("button"), { className: "robot", value: robot, onclick: () => view.select(view.robot === robot ? null : robot) });
    row.innerHTML = `<span class="badge" style="background:${colourOf(robot)}">${robot + 1}</span><span class="state"></span><span class="mode"></span><span class="bar"><i style="background:${colourOf(robot)}"></i><b></b></span>`;
    $("team").append(row);
  }
  const most = mission.budget_mm.subarray(0, mission.robots).reduce((a, b) => Math.max(a, b)) / 1000;
  const series = (each, name, robot, scale) => Array.from({ length: each.moments }, (_, moment) => each.of(name, moment, robot) * scale);
  const lines = () => view.missions.flatMap((each, number) => [{
    values: Array.from({ length: each.moments }, (_, moment) => each.coverage(moment)),
    get colour() { return ink("--ink"); }, dash: number ? [6, 4] : [],
  }]);
  const budgets = () => mission.present.flatMap((robot) => [
    { robot, values: series(mission, "budget_mm", robot, 1e-3), colour: colourOf(robot) },
    { robot, values: series(mission, "home_mm", robot, 1e-3), colour: colourOf(robot), dash: [4, 3], width: 1.3 },
  ]);
  view.charts = [
    new Chart($("coverage"), 1, lines, mission.success_percent / 100),
    new Chart($("budgets"), most, () => budgets().map((line) => ({ ...line, faint: view.robot !== null && line.robot !== view.robot }))),
  ];
}

function listen() {
  $("play").onclick = () => view.toggle();
  $("back").onclick = () => view.step(-1);
  $("on").onclick = () => view.step(1);
  $("live").onclick = () => view.seek(view.last);
  $("time").oninput = (event) => { view.pause(); view.seek(Number(event.target.value)); };
  $("theme").onclick = () => view.theme(!view.dark);
  window.addEventListener("resize", () => view.refresh());
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const keys = {
      " ": () => view.toggle(), ArrowLeft: () => view.step(event.shiftKey ? -10 : -1), ArrowRight: () => view.step(event.shiftKey ? 10 : 1),
      Home: () => view.seek(0), End: () => view.seek(view.last), Escape: () => view.select(null),
      t: () => view.look("team"), o: () => view.look("own"), b: () => view.look("truth"), g: () => $("layers").querySelector("[value=graph]").click(),
      f: () => view.layer("frontiers"), c: () => view.layer("cameras"), d: () => view.theme(!view.dark),
    };
    const digit = Number(event.key);
    if (digit >= 1 && digit <= view.missions[0].robots) keys[event.key] = () => view.select(digit - 1);
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => view.theme(dark.matches));
  view.theme(dark.matches);
}

function follow(address) {  // a mission that is still in the air
  const source = new EventSource(address);
  let before = Promise.resolve();
  const inTurn = (take) => (event) => {  // news are unpacked side by side, and taken one after the other
    const news = unpack(event.data);
    before = before.then(async () => take(...await news));
  };
  source.onopen = () => { if (view.live === "lost") view.tune("live"); };
  source.onerror = () => { if (view.flying) view.tune("lost"); };  // the browser tries again
  source.addEventListener("message", inTurn((facts, arrays) => { view.missions[0].grow(facts, arrays); view.tune(view.live); }));
  const end = inTurn(({ complete, metres_to_99 }) => { Object.assign(view.missions[0], { complete, metres_to_99 }); view.tune("over"); });
  source.addEventListener("over", (event) => { source.close(); end(event); });
  view.tune("live");
  view.following = true;
}

async function begin() {
  const packed = [...document.querySelectorAll(".mission")];
  view.missions = (await Promise.all(packed.map((each) => unpack(each.textContent)))).map((mission) => new Mission(...mission));
  build();
  listen();
  if (packed[0].dataset.more) follow(packed[0].dataset.more);
  view.before = performance.now();
  requestAnimationFrame((now) => view.frame(now));
  document.documentElement.dataset.ready = "true";
}

begin().catch((error) => {
  document.querySelector("main").innerHTML = `<p class="broken">This page needs a browser from 2023 or later. (${error})</p>`;
  throw error;
});
