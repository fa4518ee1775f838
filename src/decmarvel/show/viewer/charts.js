// Charts: values over time. The current time is a line, and a click goes to another.

class Chart {
  constructor(canvas, most, curves, goal) {
    Object.assign(this, { canvas, most, curves, goal, buffer: element("canvas"), painted: "" });
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
      for (const each of [this.canvas, this.buffer]) Object.assign(each, { width, height });
      this.paint(box, ratio);
    }
    const pen = this.canvas.getContext("2d"), at = this.left + (view.time / Math.max(1, view.last)) * this.width;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.drawImage(this.buffer, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = ink("--accent");
    pen.fillRect(at - 1, 2, 2, box.height - 18);
  }

  paint(box, ratio) {  // everything but the line of the current time
    const pen = this.buffer.getContext("2d"), bottom = box.height - 16, top = 6;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.left = 48;
    this.width = box.width - this.left - 16;
    const x = (time) => this.left + (time / Math.max(1, view.last)) * this.width;
    const y = (value) => bottom - (value / this.most) * (bottom - top);
    const text = { font: "11px system-ui, sans-serif", fillStyle: ink("--faint") };
    Object.assign(pen, { ...text, strokeStyle: ink("--line"), lineWidth: 1 });
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
