"""Curves as SVG, with the standard library only: lines over logarithmic axes, with a legend."""
import math

COLOURS = ["#0b6e4f", "#c1440e", "#3d5a80", "#8d6a9f", "#6c757d"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 80, 20, 44, 56


def ticks(low, high, base):
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    step = max(1, (last - first) // 9)
    return [base**e for e in range(first, last + 1, step)]


def tag(name, text=None, **attributes):
    pairs = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f"<{name}{pairs}/>" if text is None else f"<{name}{pairs}>{escape(text)}</{name}>"


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def curve(title, x_label, y_label, series, x_text=str, y_text=str, x_base=2, y_base=10):
    """Returns the SVG's text. series: name -> [(x, y)], positive numbers."""
    points = [p for line in series.values() for p in line]
    if not points:
        return ""
    xs, ys = ticks(min(p[0] for p in points), max(p[0] for p in points), x_base), ticks(min(p[1] for p in points), max(p[1] for p in points), y_base)
    if len(xs) < 2:
        xs.append(xs[0] * x_base)
    if len(ys) < 2:
        ys.append(ys[0] * y_base)

    def place(value, marks, start, end):
        return start + (end - start) * math.log(value / marks[0]) / math.log(marks[-1] / marks[0])

    def x_of(x):
        return round(place(x, xs, LEFT, WIDTH - RIGHT), 1)

    def y_of(y):
        return round(place(y, ys, HEIGHT - BOTTOM, TOP), 1)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           tag("rect", width=WIDTH, height=HEIGHT, fill="white"), tag("text", title, x=LEFT, y=24, font_size=15, font_weight="bold")]
    for x in xs:
        out += [tag("line", x1=x_of(x), x2=x_of(x), y1=TOP, y2=HEIGHT - BOTTOM, stroke="#e5e5e5"),
                tag("text", x_text(x), x=x_of(x), y=HEIGHT - BOTTOM + 18, text_anchor="middle")]
    for y in ys:
        out += [tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y_of(y), y2=y_of(y), stroke="#e5e5e5"),
                tag("text", y_text(y), x=LEFT - 8, y=y_of(y) + 4, text_anchor="end")]
    out += [tag("text", x_label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 14, text_anchor="middle"),
            tag("text", y_label, x=0, y=0, text_anchor="middle", transform=f"translate(18,{(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)")]
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        line = sorted(line)
        out.append(tag("polyline", points=" ".join(f"{x_of(x)},{y_of(y)}" for x, y in line), fill="none", stroke=colour, stroke_width=2))
        out += [tag("circle", cx=x_of(x), cy=y_of(y), r=3, fill=colour) for x, y in line]
        out += [tag("line", x1=LEFT + 12, x2=LEFT + 36, y1=TOP + 14 + 18 * i, y2=TOP + 14 + 18 * i, stroke=colour, stroke_width=3),
                tag("text", name, x=LEFT + 42, y=TOP + 18 + 18 * i)]
    return "\n".join([*out, "</svg>", ""])
