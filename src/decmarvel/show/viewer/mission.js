"use strict";
// Data: missions, recorded ones or one that still flies. A mission is arrays over moments (0 is take-off); a time is a
// moment, or between two moments a fraction.

const NOT_YET = 65535;
const SINCE = ["known_at", "node_at", "edge_at"];  // updates of these are places; the other arrays get more rows
const KINDS = { uint8: Uint8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array, float32: Float32Array };
const [EXPLORING, RETURNING, HOME, FAILED, ABSENT] = [0, 1, 2, 3, 4];
const $ = (id) => document.getElementById(id);
const element = (tag, properties = {}) => Object.assign(document.createElement(tag), properties);
const colourOf = (robot) => view.missions[0].robot_colours[robot % view.missions[0].robot_colours.length];

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

function joined(before, update) {
  const both = new before.constructor(before.length + update.length);
  both.set(before);
  both.set(update, before.length);
  both.shape = [before.shape[0] + update.shape[0], ...update.shape.slice(1)];
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
    this.ways = [];
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

  // Adds a moment of a mission that still flies.
  grow({ arrays: places, ...facts }, { node_cell, ...arrays }) {
    Object.assign(this, facts);
    const size = this.rows * this.columns, moment = this.moments;
    if (this.anybody) {
      arrays.known_at.forEach((place) => {
        this.anybody[place % size] = Math.min(this.anybody[place % size], moment);
      });
    }
    arrays.node_at.forEach((place, row) => {
      this.node_cell.set(node_cell.subarray(2 * row, 2 * row + 2), 2 * place);
    });
    for (const [name, update] of Object.entries(arrays)) {
      if (SINCE.includes(name)) update.forEach((place) => { this[name][place] = moment; });
      else this[name] = joined(this[name], update);
    }
    this.last = this.moments++;
    this.growths.clear();
    this.note(arrays.sightings);
  }

  get present() { return [...Array(this.robots).keys()].filter((robot) => this.mode[robot] !== ABSENT); }

  // Points are (x, y) in cells of the shown part, y upwards.
  cellPoint(y, x) { return [x - this.corner[1] + 0.5, y - this.corner[0] + 0.5]; }
  sitePoint(row, column) {
    return this.cellPoint(this.first_site + this.stride * row, this.first_site + this.stride * column);
  }
  pointIn(cells, place) { return this.cellPoint(cells[2 * place], cells[2 * place + 1]); }
  at(moment, robot) { return this.pointIn(this.cell, moment * this.robots + robot); }
  nodePoint(robot, row, column) {  // where a robot stands at a site
    const place = (robot * this.sites + row) * this.sites + column;
    return this.node_cell[2 * place] < 0 ? this.sitePoint(row, column) : this.pointIn(this.node_cell, place);
  }
  part(name, robot) { return this.bodies[robot * this.body.length + this.body.indexOf(name)]; }
  of(name, moment, robot) { return this[name][moment * this.robots + robot]; }

  pose(time, robot) {
    const before = Math.min(Math.floor(time), this.last), after = Math.min(before + 1, this.last);
    const share = time - before, points = this.way(before, robot), along = share * (points.length - 1);
    const [a, b] = [points[Math.floor(along)], points[Math.ceil(along)]], part = along % 1;
    const from = this.of("heading", before, robot);
    const turn = ((this.of("heading", after, robot) - from + 540) % 360) - 180;
    return { at: [a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1])], heading: from + share * turn };
  }

  // The corners of the move after a moment: its two ends, or the cells after each substep if it is bent.
  way(moment, robot) {
    if (moment >= this.last) return [this.at(this.last, robot)];
    const number = moment * this.robots + robot, steps = this.path.shape[2];
    if (!this.ways[number]) {
      const [from, to] = [this.at(moment, robot), this.at(moment + 1, robot)];
      const points = Array.from({ length: steps }, (_, step) => this.pointIn(this.path, number * steps + step));
      const gone = (way, step) => Math.sign(way) * Math.floor((2 * Math.abs(way) * step + steps) / (2 * steps));
      const straight = points.every((point, step) => (
        [0, 1].every((axis) => point[axis] === from[axis] + gone(to[axis] - from[axis], step + 1))
      ));
      this.ways[number] = straight ? [from, to] : [from, ...points];
    }
    return this.ways[number];
  }

  // The corners of the way to where a robot is, and of the rest of its move.
  trail(time, robot) {
    const moment = Math.floor(time), points = [this.at(0, robot)];
    for (let before = 0; before < moment; before++) points.push(...this.way(before, robot).slice(1));
    const way = this.way(moment, robot), passed = Math.floor((time - moment) * (way.length - 1));
    return [...points, ...way.slice(1, passed + 1), this.pose(time, robot).at];
  }
  ahead(time, robot) {
    const moment = Math.floor(time), way = this.way(moment, robot);
    const passed = Math.floor((time - moment) * (way.length - 1));
    return [this.pose(time, robot).at, ...way.slice(passed + 1)];
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
      this.anybody = new Uint16Array(size).fill(NOT_YET);
      for (let place = 0; place < this.known_at.length; place++) {
        const cell = place % size;
        if (this.known_at[place] < this.anybody[cell]) this.anybody[cell] = this.known_at[place];
      }
    }
    return this.anybody;
  }

  // How a map grew: from when until when each cell was a frontier, which is a free cell with 2 to 7 unknown cells among
  // the eight around it; and all cells in the order in which they change, those of moment t up to ends[t].
  growth(robot) {
    if (this.growths.has(robot)) return this.growths.get(robot);
    const { rows, columns, free } = this, size = free.length, known = this.knownAt(robot);
    const from = new Uint16Array(size).fill(NOT_YET), until = new Uint16Array(size);
    const ends = new Uint32Array(this.moments);
    const changes = (cell, take) => {
      take(known[cell]);
      if (from[cell] >= until[cell]) return;
      take(from[cell]);
      if (until[cell] !== NOT_YET) take(until[cell]);
    };
    for (let cell = 0; cell < size; cell++) {
      if (known[cell] === NOT_YET) continue;
      if (free[cell]) {
        const row = Math.floor(cell / columns), column = cell % columns;
        let first = NOT_YET, last = 0, lastButOne = 0;  // of the eight
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
      if (known[cell] !== NOT_YET) changes(cell, (moment) => { cells[--places[moment]] = cell; });
    }
    this.growths.set(robot, { from, until, cells, ends });
    return this.growths.get(robot);
  }

  // Whether a robot can go to a neighbour, and whether two short edges lead where a long one does.
  linked(robot, row, column, dy, dx, moment) {
    const slot = 5 * dy + dx + 12;
    if (slot > 12) return this.linked(robot, row + dy, column + dx, -dy, -dx, moment);
    if (row < 0 || column < 0 || row >= this.sites || column >= this.sites) return false;
    return this.edge_at[((robot * 12 + slot) * this.sites + row) * this.sites + column] <= moment;
  }
  shorter(robot, row, column, dy, dx, moment) {
    return this.slots.some(([y, x]) => Math.max(y ** 2, x ** 2, (dy - y) ** 2, (dx - x) ** 2) === 1
      && this.linked(robot, row, column, y, x, moment)
      && this.linked(robot, row + y, column + x, dy - y, dx - x, moment));
  }

  // The most probable candidates of a robot in the decision after a moment; none if its planner knows no probabilities.
  candidates(moment, robot) {
    const [decisions, , count] = this.probabilities.shape;
    if (moment >= decisions) return [];
    const [row, column] = this.site.subarray(2 * (moment * this.robots + robot));
    const first = (moment * this.robots + robot) * count, here = this.at(moment, robot);
    return [...Array(count).keys()].map((rank) => {
      const [choice, heading, parts] = this.probabilities.subarray(3 * (first + rank), 3 * (first + rank) + 3);
      const [dy, dx] = this.slots[Math.floor(choice / 3)];
      const at = this.nodePoint(robot, row + dy, column + dx);
      return { choice, heading, share: parts / 10000, at, east: at[0] - here[0], north: at[1] - here[1] };
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
