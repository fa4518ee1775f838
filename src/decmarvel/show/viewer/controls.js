// Controls: what is shown and when, the texts beside the map, buttons and keys, and updates of a mission that flies.

const style = () => getComputedStyle(document.documentElement);
let inks = {};
function ink(name) { return (inks[name] ??= style().getPropertyValue(name).trim()); }
function rgb(hex) {  // as a pixel
  const value = parseInt(hex.slice(1), 16);
  return (255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16);
}

const view = {
  missions: [],
  panes: [],
  charts: [],
  time: 0,
  last: 0,
  playing: false,
  following: false,  // the newest moment of a mission that still flies
  live: null,  // or "live", "lost", "over": the connection to a mission that still flies
  robot: null,  // the selected one
  whose: "team",  // map: "team", "own" (of the selected robot) or "truth"
  dark: false,
  due: true,  // to be drawn again
  layers: { trails: true, cameras: true, sightings: true, frontiers: true, graph: false, truth: true },

  refresh() { this.due = true; },
  seek(time) {  // at the newest moment of a mission that still flies, follow it
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

  // Whether the mission still flies.
  get flying() { return this.live !== null && this.live !== "over"; },
  tune(live) {
    if (live === "over" && this.following) this.playing = true;  // play the rest at the chosen speed
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
      const pace = this.following ? Math.max(speed, behind) : speed;  // about a second behind at most
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
    const connection = { live: "live", lost: "no connection", over: "mission over" }[this.live] ?? "";
    Object.assign($("live"), { hidden: !this.live, textContent: connection });
    $("live").dataset.state = this.live;
    $("live").setAttribute("aria-pressed", this.following);
    for (const button of $("whose").children) button.setAttribute("aria-checked", button.value === this.whose);
    for (const button of $("layers").children) button.setAttribute("aria-pressed", this.layers[button.value]);
    const notes = this.missions.map((mission) => whoseNote(mission, this.whose, this.robot ?? 0));
    const agree = notes.every((note) => note === notes[0]);
    const named = notes.map((note, number) => `${this.missions[number].planner}: ${note}`);
    $("whose-note").textContent = agree ? notes[0] : named.join(" ");
    drawTeam();
    drawCandidates();
  },
};

function whoseNote({ radio, heard }, whose, robot) {
  const alone = `What robot ${robot + 1} has seen itself.`;
  if (whose === "truth") return "The building as it is.";
  if (whose === "team") {
    return "Everything that anybody has seen. "
      + (radio ? "All robots know it, by radio." : "No robot knows it: they never talk.");
  }
  if (!radio) return `${alone} This is all it decides from.`;
  if (heard) return `What robot ${robot + 1} knows, by radio from the others, too.`;
  return `${alone} It decides from what all have seen: they have a radio.`;
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
  const shown = mission.candidates(moment, view.robot);
  const done = moment < mission.last ? mission.of("move_choice", moment, view.robot) : -1;
  box.querySelector("h2").textContent = `What robot ${view.robot + 1} would do next`;
  box.querySelector("ol").replaceChildren(...shown.map(({ choice, heading, share, north, east }) => {
    const metres = Math.hypot(north, east) * mission.cell_m;
    const way = wind((Math.atan2(north, east) * 180) / Math.PI);
    const row = element("li"), [words, percent] = [element("span"), element("span")];
    words.textContent = `${metres ? `${metres.toFixed(0)} m ${way}` : "stay"}, look ${wind(heading)}`;
    percent.textContent = `${(100 * share).toFixed(0)}%`;
    const bar = element("i");
    bar.style.width = `${100 * share}%`;
    row.classList.toggle("done", choice === done);
    row.append(words, percent, bar);
    return row;
  }));
  const rest = 1 - shown.reduce((sum, { share }) => sum + share, 0);
  const others = `Other candidates: ${(100 * Math.max(0, rest)).toFixed(0)}%. Bold: what it did.`;
  box.querySelector("p").textContent = shown.length ? others : "Nothing to decide.";
}

function describe() {
  const [mission] = view.missions, many = view.missions.length > 1;
  const names = view.missions.map((each) => each.planner).join(" and ");
  const team = mission.present.length, metres = Math.max(...mission.budget_mm.subarray(0, mission.robots)) / 1000;
  $("headline").textContent = team > 1 ? `${team} robots explore ${mission.map}` : `1 robot explores ${mission.map}`;
  const reached = mission.metres_to_99 !== null;
  const when = reached ? `after ${mission.metres_to_99.toFixed(0)} m` : "was not reached";
  const end = `${mission.success_percent}% ${when}`;
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
  buildChoices(mission);
  buildTeam(mission);
  buildCharts(mission);
}

function buildChoices(mission) {
  for (const [value, text] of [["team", "Team"], ["own", "One robot's"], ["truth", "Ground truth"]]) {
    const button = element("button", { value, textContent: text, onclick: () => view.look(value) });
    button.setAttribute("role", "radio");
    $("whose").append(button);
  }
  const layers = {
    trails: "Trails", cameras: "Cameras", sightings: "Sightings", frontiers: "Frontiers", graph: "Graph",
    truth: "Unseen floor",
  };
  for (const [value, text] of Object.entries(layers)) {
    const onclick = () => {
      if (value === "graph" && view.robot === null) view.select(mission.present[0]);
      view.layer(value);
    };
    $("layers").append(element("button", { value, textContent: text, onclick }));
  }
}

function buildTeam(mission) {
  $("team").innerHTML = "<h2>Robots</h2>";
  for (const robot of mission.present) {
    const onclick = () => view.select(view.robot === robot ? null : robot);
    const row = element("button", { className: "robot", value: robot, onclick });
    row.innerHTML = `<span class="badge">${robot + 1}</span><span class="state"></span><span class="mode"></span>`
      + '<span class="bar"><i></i><b></b></span>';
    if (mission.carries[robot]) {
      row.append(element("span", { className: "carries", textContent: mission.carries[robot] }));
    }
    for (const part of row.querySelectorAll(".badge, i")) part.style.background = colourOf(robot);
    $("team").append(row);
  }
}

function buildCharts(mission) {
  const most = Math.max(...mission.budget_mm.subarray(0, mission.robots)) / 1000;
  const moments = (each, value) => Array.from({ length: each.moments }, (_, moment) => value(moment));
  const series = (name, robot) => moments(mission, (moment) => mission.of(name, moment, robot) / 1000);
  const lines = () => view.missions.flatMap((each, number) => [{
    values: moments(each, (moment) => each.coverage(moment)),
    get colour() { return ink("--ink"); }, dash: number ? [6, 4] : [],
  }]);
  const budgets = () => mission.present.flatMap((robot) => [
    { robot, values: series("budget_mm", robot), colour: colourOf(robot) },
    { robot, values: series("home_mm", robot), colour: colourOf(robot), dash: [4, 3], width: 1.3 },
  ]);
  view.charts = [
    new Chart($("coverage"), 1, lines, mission.success_percent / 100),
    new Chart($("budgets"), most, () => budgets().map((line) => ({
      ...line, faint: view.robot !== null && line.robot !== view.robot,
    }))),
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
      " ": () => view.toggle(),
      ArrowLeft: () => view.step(event.shiftKey ? -10 : -1), ArrowRight: () => view.step(event.shiftKey ? 10 : 1),
      Home: () => view.seek(0), End: () => view.seek(view.last), Escape: () => view.select(null),
      t: () => view.look("team"), o: () => view.look("own"), b: () => view.look("truth"),
      g: () => $("layers").querySelector("[value=graph]").click(),
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

function follow(address) {  // a mission that still flies
  const source = new EventSource(address);
  let before = Promise.resolve();
  const inTurn = (take) => (event) => {  // updates are unpacked at the same time, and added one after the other
    const update = unpack(event.data);
    before = before.then(async () => take(...await update));
  };
  source.onopen = () => { if (view.live === "lost") view.tune("live"); };
  source.onerror = () => { if (view.flying) view.tune("lost"); };  // the browser tries again
  source.addEventListener("message", inTurn((facts, arrays) => {
    view.missions[0].grow(facts, arrays);
    view.tune(view.live);
  }));
  const end = inTurn(({ complete, metres_to_99 }) => {
    Object.assign(view.missions[0], { complete, metres_to_99 });
    view.tune("over");
  });
  source.addEventListener("over", (event) => { source.close(); end(event); });
  view.tune("live");
  view.following = true;
}

async function begin() {
  const packed = [...document.querySelectorAll(".mission")];
  const unpacked = await Promise.all(packed.map((each) => unpack(each.textContent)));
  view.missions = unpacked.map(([facts, arrays]) => new Mission(facts, arrays));
  build();
  listen();
  if (packed[0].dataset.updates) follow(packed[0].dataset.updates);
  view.before = performance.now();
  requestAnimationFrame((now) => view.frame(now));
  document.documentElement.dataset.ready = "true";
}

begin().catch((error) => {
  const words = `This page needs a browser from 2023 or later. (${error})`;
  document.querySelector("main").replaceChildren(element("p", { className: "broken", textContent: words }));
  throw error;
});
