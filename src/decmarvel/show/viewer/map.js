// Drawing: the map of a mission, with everything on it.

class Pane {
  constructor(mission, parent, captioned) {
    this.mission = mission;
    this.box = parent.appendChild(element("div", { className: "pane" }));
    this.canvas = this.box.appendChild(element("canvas"));
    this.caption = this.box.appendChild(element("div", { className: "caption" }));
    this.captioned = captioned;
    this.image = new ImageData(mission.columns, mission.rows);
    this.buffer = element("canvas", { width: mission.columns, height: mission.rows });
    this.painted = {};
    this.canvas.addEventListener("click", (event) => this.pick(event));
  }

  pick(event) {
    const [x, y] = [event.offsetX, event.offsetY];
    const found = this.mission.present
      .map((robot) => ({ robot, at: this.place(this.mission.pose(this.time(), robot).at) }))
      .map(({ robot, at }) => ({ robot, away: Math.hypot(at[0] - x, at[1] - y) }))
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
    pen.drawImage(this.buffer, 0, 0, this.scale * mission.columns, this.scale * mission.rows);
    pen.restore();
    this.scaleBar(pen, box);
    const robots = mission.present, chosen = view.robot !== null && view.robot < mission.robots ? view.robot : null;
    if (view.layers.graph && chosen !== null) this.drawGraph(pen, moment, chosen);
    const alone = view.whose === "own" ? chosen : null;  // the others are ghosts then: it knows only glimpses of them
    const seen = mission.seen[Math.ceil(time)] ?? [];
    const glimpsed = seen.filter(({ observer }) => observer === alone).map(({ teammate }) => teammate);
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
    const { mission, image, painted } = this, all = view.whose === "truth";
    const whose = view.whose === "own" ? view.robot : null;
    const wanted = [view.whose, whose, view.layers.frontiers, view.layers.truth, view.dark].join();
    const same = wanted === painted.wanted, [before, after] = [painted.moment, moment].sort((a, b) => a - b);
    if (same && (all || before === after)) return;
    this.painted = { wanted, moment };
    const names = ["ground", "floor", "wall", "unseen", "frontier"];
    const [ground, floor, wall, unseen, edge] = names.map((name) => rgb(ink(`--${name}`)));
    const { rows, columns, free } = mission, known = mission.knownAt(whose);
    const { from, until, cells, ends } = mission.growth(whose);
    const dim = view.layers.truth ? unseen : ground, rim = view.layers.frontiers ? edge : floor;
    const pixels = new Uint32Array(image.data.buffer);
    const paint = (cell) => {
      if (all) {
        const solid = () => (touches(free, Math.floor(cell / columns), cell % columns, rows, columns) ? wall : ground);
        pixels[cell] = free[cell] ? floor : solid();
      }
      else if (known[cell] > moment) pixels[cell] = free[cell] ? dim : ground;
      else if (!free[cell]) pixels[cell] = wall;
      else pixels[cell] = from[cell] <= moment && moment < until[cell] ? rim : floor;
    };
    if (same) for (let place = ends[before]; place < ends[after]; place++) paint(cells[place]);
    else for (let cell = 0; cell < free.length; cell++) paint(cell);
    this.buffer.getContext("2d").putImageData(image, 0, 0);
  }

  line(pen, points, { colour, width = 2, dash = [], alpha = 1, ends = "round" }) {
    pen.save();
    const stroke = { strokeStyle: colour, lineWidth: width, lineJoin: "bevel", lineCap: ends };
    Object.assign(pen, { ...stroke, globalAlpha: alpha * pen.globalAlpha });
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

  beside(robot, [x, y]) {  // a little beside its cells, so that robots on the same edge do not hide each other
    const away = this.mission.aside_cells * ((robot + 0.5) / this.mission.robots - 0.5);
    return [x + away, y - away];
  }

  drawTrail(pen, time, robot) {
    const { mission } = this, points = mission.trail(time, robot).map((point) => this.beside(robot, point));
    const dash = robot < mission.robot_colours.length ? [] : [5, 4];
    this.line(pen, points, { colour: colourOf(robot), width: 2, alpha: 0.75, dash, ends: "butt" });
  }

  drawBase(pen, robot) {
    const [x, y] = this.place(this.mission.pointIn(this.mission.base_cell, robot)), side = 6;
    pen.save();
    Object.assign(pen, { fillStyle: ink("--card"), strokeStyle: colourOf(robot), lineWidth: 2 });
    pen.fillRect(x - side, y - side, 2 * side, 2 * side);
    pen.strokeRect(x - side, y - side, 2 * side, 2 * side);
    pen.restore();
  }

  drawCamera(pen, time, robot) {
    const { mission } = this, moment = Math.min(Math.floor(time), mission.last);
    if (mission.of("mode", moment, robot) > RETURNING) return;
    const { at, heading } = mission.pose(time, robot), wide = mission.part("fov_deg", robot);
    const rays = Math.ceil(wide / 2), edge = wide < 360 ? [at] : [];
    const range = mission.part("range_mm", robot) / 1000 / mission.cell_m;
    for (let ray = 0; ray <= rays; ray++) {
      edge.push(this.reach(at, ((heading - wide / 2 + (ray / rays) * wide) * Math.PI) / 180, range));
    }
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

  reach([x, y], angle, range) {  // as far as a camera sees in a direction: to the first wall
    const { mission } = this, [dx, dy] = [Math.cos(angle), Math.sin(angle)];
    for (let length = 0.5; length <= range; length += 0.5) {
      const [column, row] = [Math.floor(x + length * dx), Math.floor(y + length * dy)];
      const inside = row >= 0 && column >= 0 && row < mission.rows && column < mission.columns;
      if (!inside || !mission.free[row * mission.columns + column]) return [x + length * dx, y + length * dy];
    }
    return [x + range * dx, y + range * dy];
  }

  drawSightings(pen, time, chosen) {
    const { mission } = this, newest = Math.ceil(time);
    for (const { observer, teammate, at } of mission.seen[newest] ?? []) {
      if (chosen !== null && observer !== chosen) continue;
      this.line(pen, [mission.pose(time, observer).at, at], { colour: colourOf(teammate), width: 2.5, dash: [2, 5] });
      this.ring(pen, at, 13, colourOf(observer), 2.5);
    }
    if (chosen === null) return;
    for (let age = 0; age < mission.remembered_decisions; age++) {  // what it remembers of where it saw whom
      for (const { observer, teammate, at } of mission.seen[Math.floor(time) - age] ?? []) {
        if (observer === chosen) this.ring(pen, at, 5, colourOf(teammate), 2, 1 - age / mission.remembered_decisions);
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
    this.line(pen, mission.ahead(time, robot), { colour: colourOf(robot), width: 1.5, dash: [3, 3] });
    this.ring(pen, target, 4, colourOf(robot), 2);
  }

  // An arrow for each candidate: where it would look from there; the longer, the more probable.
  drawCandidates(pen, moment, robot) {
    for (const { at, heading, share } of this.mission.candidates(moment, robot)) {
      const [x, y] = this.place(at), angle = (-heading * Math.PI) / 180, length = 10 + 26 * Math.sqrt(share);
      pen.save();
      pen.translate(x, y);
      pen.rotate(angle);
      Object.assign(pen, { strokeStyle: ink("--accent"), fillStyle: ink("--accent") });
      Object.assign(pen, { lineWidth: 3, globalAlpha: 0.35 + 0.65 * share });
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
    const body = (mission.part("radius_mm", robot) / 1000 / mission.cell_m) * this.scale;  // to scale, 0 if unknown
    pen.save();
    pen.translate(x, y);
    if (body > size) {
      Object.assign(pen, { strokeStyle: colourOf(robot), fillStyle: colourOf(robot), lineWidth: 1.5 });
      pen.beginPath();
      pen.arc(0, 0, body, 0, 2 * Math.PI);
      pen.stroke();
      pen.globalAlpha *= 0.35;
      pen.fill();
      pen.globalAlpha /= 0.35;
    }
    if (chosen) {
      Object.assign(pen, { strokeStyle: ink("--ink"), lineWidth: 2 });
      pen.beginPath();
      pen.arc(0, 0, Math.max(size, body) + 6, 0, 2 * Math.PI);
      pen.stroke();
    }
    if (mode === FAILED) {  // a cross, which leaves the number to be read
      Object.assign(pen, { strokeStyle: ink("--ink"), lineWidth: 4 });
      pen.beginPath();
      for (const sign of [1, -1]) {
        pen.moveTo(-size - 3, sign * (-size - 3));
        pen.lineTo(size + 3, sign * (size + 3));
      }
      pen.stroke();
    }
    const alpha = pen.globalAlpha * (mode === HOME ? 0.7 : 1);
    Object.assign(pen, { fillStyle: colourOf(robot), strokeStyle: ink("--outline") });
    Object.assign(pen, { lineWidth: 1.5, globalAlpha: alpha });
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
    if (body > 0 && body <= size) {
      Object.assign(pen, { fillStyle: ink("--shadow"), globalAlpha: 0.45 * alpha });
      pen.beginPath();
      pen.arc(0, 0, body, 0, 2 * Math.PI);
      pen.fill();
      pen.globalAlpha = alpha;
    }
    Object.assign(pen, { fillStyle: ink("--outline"), textAlign: "center", textBaseline: "middle" });
    pen.font = "bold 11px system-ui, sans-serif";
    pen.fillText(robot + 1, 0, 0.5);
    const word = { [RETURNING]: "going home", [FAILED]: "broken" }[mode];
    if (word) {
      Object.assign(pen, { fillStyle: ink("--ink"), strokeStyle: ink("--card"), lineWidth: 3 });
      pen.font = "600 11px system-ui, sans-serif";
      pen.strokeText(word, 0, Math.max(size, body) + 15);
      pen.fillText(word, 0, Math.max(size, body) + 15);
    }
    pen.restore();
  }

  drawGraph(pen, moment, robot) {
    const { mission } = this, { sites, slots } = mission, size = sites ** 2, utility = mission.utilityAt(moment);
    pen.save();
    Object.assign(pen, { strokeStyle: colourOf(robot), lineWidth: 1, globalAlpha: 0.35 });
    pen.beginPath();
    for (let slot = 0; slot < 12; slot++) {
      const [dy, dx] = slots[slot], long = Math.max(Math.abs(dy), Math.abs(dx)) > 1;
      if (long && !mission.roads) continue;  // long edges would hide the map
      for (let place = 0; place < size; place++) {
        if (mission.edge_at[(robot * 12 + slot) * size + place] > moment) continue;
        const [row, column] = [Math.floor(place / sites), place % sites];
        if (long && mission.shorter(robot, row, column, dy, dx, moment)) continue;
        pen.moveTo(...this.place(mission.nodePoint(robot, row, column)));
        pen.lineTo(...this.place(mission.nodePoint(robot, row + dy, column + dx)));
      }
    }
    pen.stroke();
    pen.restore();
    for (let place = 0; place < size; place++) {
      if (mission.node_at[robot * size + place] > moment) continue;
      const point = mission.nodePoint(robot, Math.floor(place / sites), place % sites);
      const worth = utility[robot * size + place];
      const colour = worth ? ink("--frontier") : colourOf(robot);
      this.dot(pen, point, worth ? 3 + Math.min(7, Math.sqrt(worth)) : 1.8, colour, worth ? 0.85 : 0.7);
    }
  }

  scaleBar(pen, box) {
    const { mission } = this, wanted = (mission.columns * mission.cell_m) / 5;
    const metres = [1, 2, 5, 10, 20, 50, 100, 200].filter((length) => length <= wanted).pop() ?? 1;
    const length = (metres / mission.cell_m) * this.scale, [x, y] = [12, box.height - 12];
    pen.save();
    Object.assign(pen, { fillStyle: ink("--card"), textBaseline: "bottom", globalAlpha: 0.82 });
    pen.font = "12px system-ui, sans-serif";
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
