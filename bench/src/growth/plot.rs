//! Plots as SVG: both axes logarithmic, on a ground of their own, for white pages and dark ones.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// What is left around the field for labels.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 78.0;
const BOTTOM: f64 = 56.0;
/// Distinguishable without red and green.
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

const STYLE: &str = "\
.ground{fill:#fff;stroke:#d0d7de}.grid{stroke:#d0d7de}text{fill:#1f2328;font:13px sans-serif}\
.title{font-size:16px;font-weight:bold}polyline{fill:none;stroke-width:2.5}\
@media(prefers-color-scheme:dark){.ground{fill:#0d1117;stroke:#3d444d}.grid{stroke:#3d444d}text{fill:#e6edf3}}";

/// Some curves over one axis.
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    pub(super) curves: Vec<(&'a str, Vec<(f64, f64)>)>,
}

/// One axis, in powers of ten.
struct Axis {
    from: i32,
    to: i32,
}

// === impl Plot ===

impl Plot<'_> {
    pub(super) fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|(_, points)| points);
        let x = Axis::over(points().map(|point| point.0));
        let y = Axis::over(points().map(|point| point.1));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" role=\"img\">\n<title>{0}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" x=\".5\" y=\".5\" width=\"719\" height=\"399\" rx=\"8\"/>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"28\">{1}</text>\n",
            escaped(&format!("{}: {}", self.title, self.y)),
            escaped(self.title)
        );
        for power in x.from..=x.to {
            let at = across(&x, 10_f64.powi(power));
            let (bottom, label) = (HEIGHT - BOTTOM, short(10_f64.powi(power)));
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>"
            );
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                bottom + 19.0
            );
        }
        for power in y.from..=y.to {
            let (at, label) = (down(&y, 10_f64.powi(power)), short(10_f64.powi(power)));
            let right = WIDTH - RIGHT;
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>"
            );
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                at + 4.0
            );
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let (low, high) = (HEIGHT - 14.0, TOP + (HEIGHT - TOP - BOTTOM) / 2.0);
        let (x_label, y_label) = (escaped(self.x), escaped(self.y));
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{low}\" text-anchor=\"middle\">{x_label}</text>"
        );
        let _ = writeln!(
            svg,
            "<text transform=\"translate(20 {high}) rotate(-90)\" text-anchor=\"middle\">{y_label}</text>"
        );
        for (number, (name, points)) in self.curves.iter().enumerate() {
            curve(&mut svg, number, name, points, &x, &y);
        }
        svg + "</svg>\n"
    }
}

fn curve(svg: &mut String, number: usize, name: &str, points: &[(f64, f64)], x: &Axis, y: &Axis) {
    let colour = COLOURS[number % COLOURS.len()];
    let at: Vec<(f64, f64)> =
        points.iter().map(|point| (across(x, point.0), down(y, point.1))).collect();
    let line: Vec<String> = at.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline stroke=\"{colour}\" points=\"{}\"/>", line.join(" "));
    for (x, y) in at {
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
    }
    let left = LEFT + 210.0 * number as f64;
    let _ = writeln!(svg, "<circle cx=\"{}\" cy=\"52\" r=\"5\" fill=\"{colour}\"/>", left + 5.0);
    let _ = writeln!(svg, "<text x=\"{}\" y=\"56\">{}</text>", left + 16.0, escaped(name));
}

// === impl Axis ===

impl Axis {
    /// Whole powers of ten around all values.
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0) {
            (least, most) = (least.min(value), most.max(value));
        }
        if most <= 0.0 {
            return Self { from: 0, to: 1 };
        }
        #[expect(clippy::cast_possible_truncation, reason = "a logarithm is small")]
        let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        Self { from, to: to.max(from + 1) }
    }

    /// Where a value is, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let least = 10_f64.powi(self.from);
        (value.max(least).log10() - f64::from(self.from)) / f64::from(self.to - self.from)
    }
}

fn across(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)
}

fn down(axis: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)
}

/// 30000 as `30 k`.
pub(super) fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e3.. => format!("{} k", value / 1e3),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_axes_with_units_and_a_name_for_each_curve() {
        let curves = vec![("first < last", vec![(1.0, 20.0), (1_000.0, 9_000.0)])];
        let svg = Plot { title: "T", x: "connections", y: "requests/s", curves }.svg();
        for part in [">connections<", ">requests/s<", ">1 k<", ">10 k<", "first &lt; last"] {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
        // From the left edge of the field to the right one.
        assert!(svg.contains("points=\"80.0,") && svg.contains(" 690.0,"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3);
    }

    #[test]
    fn axes_are_whole_powers_of_ten() {
        let axis = Axis::over([3.0, 4_000.0].into_iter());
        assert_eq!((axis.from, axis.to), (0, 4));
        assert!((axis.share(100.0) - 0.5).abs() < 1e-9);
        let lone = Axis::over(std::iter::once(10.0));
        assert_eq!((lone.from, lone.to), (1, 2));
        let none = Axis::over(std::iter::empty());
        assert_eq!((none.from, none.to), (0, 1));
    }

    #[test]
    fn values_are_short() {
        assert_eq!(["1 k", "10 M", "0.01", "1"], [1e3, 1e7, 0.01, 1.0].map(short));
    }
}
