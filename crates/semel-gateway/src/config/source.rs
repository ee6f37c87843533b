//! The text of a configuration file, and how a place in it is shown.

use std::fmt;
use std::ops::Range;

use super::store;

/// A file.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    line_starts: Vec<usize>,
}

/// One line of it, with a part underlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snippet {
    /// Counted from one.
    pub(super) line: usize,
    /// Counted from one, in characters.
    pub(super) column: usize,
    shown: String,
    /// White space up to the part.
    indent: String,
    width: usize,
}

/// Of a longer line, only the surroundings of the part are shown.
const SHOWN_MAX: usize = 100;
const BOM: char = '\u{feff}';

// === impl Source ===

impl<'a> Source<'a> {
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { name, text, line_starts: std::iter::once(0).chain(ends).collect() }
    }

    /// The number of the line that has this byte, counted from one.
    pub(super) fn line_number(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// The line with this number, without its end.
    pub(super) fn line(&self, number: usize) -> &'a str {
        let start = self.line_starts.get(number.wrapping_sub(1)).copied().unwrap_or_default();
        let rest = self.text.get(start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        line.strip_suffix('\r').unwrap_or(line)
    }

    /// The line of a part, without what is hidden.
    pub(super) fn snippet(&self, start: usize, end: usize, hidden: &[Range<usize>]) -> Snippet {
        // What is missing at the end of the file is shown behind its last word.
        let start = self.text.floor_char_boundary(start.min(self.text.trim_end().len()));
        let number = self.line_number(start);
        let line = self.line(number);
        let before = start - self.line_starts.get(number - 1).copied().unwrap_or_default();
        let before = before.min(line.len());
        let part = line.len().min(before + end.saturating_sub(start));
        let count = |text: Option<&str>| text.unwrap_or_default().chars().count();
        // A byte order mark is no character of the line.
        let bom = usize::from(number == 1 && line.starts_with(BOM));
        let column = count(line.get(..before)).saturating_sub(bom);
        let width = count(line.get(before..line.floor_char_boundary(part))).max(1);
        let visible = masked(&self.line_without(number, hidden));
        let visible: Vec<char> = visible.chars().skip(bom).map(plain).collect();
        Snippet::new(number, column, width, &visible)
    }

    /// A line, with what is hidden starred out behind its scheme. No character moves.
    fn line_without(&self, number: usize, hidden: &[Range<usize>]) -> String {
        let first = self.line_starts.get(number.wrapping_sub(1)).copied().unwrap_or_default();
        let secrets: Vec<_> = hidden.iter().map(|value| self.secret_of(value)).collect();
        let star = |(at, c): (usize, char)| {
            let is_secret = secrets.iter().any(|secret| secret.contains(&(first + at)));
            if is_secret { '*' } else { c }
        };
        self.line(number).char_indices().map(star).collect()
    }

    /// The bytes of a value that may be secret.
    fn secret_of(&self, value: &Range<usize>) -> Range<usize> {
        let text = self.text.get(value.clone()).unwrap_or_default();
        let secret = store::secret_in(text);
        value.start + secret.start..value.start + secret.end
    }
}

// === impl Snippet ===

impl Snippet {
    fn new(line: usize, column: usize, width: usize, visible: &[char]) -> Self {
        let first =
            if visible.len() > SHOWN_MAX { column.saturating_sub(SHOWN_MAX / 2) } else { 0 };
        let shown: Vec<char> = visible.iter().skip(first).take(SHOWN_MAX).copied().collect();
        let indent = shown.iter().take(column - first);
        // Tabs stay tabs, so that the mark stands under its part at any tab width.
        let indent = indent.map(|c| if *c == '\t' { '\t' } else { ' ' }).collect();
        let width = width.min(shown.len().saturating_sub(column - first)).max(1);
        let shown = shown.into_iter().collect();
        Self { line, column: column + 1, shown, indent, width }
    }
}

impl fmt::Display for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        writeln!(f, "    {number} | {}", self.shown.trim_end())?;
        let (gutter, mark) = (" ".repeat(number.len()), "^".repeat(self.width));
        write!(f, "    {gutter} | {}{mark}", self.indent)
    }
}

/// Control characters could do things to a terminal.
pub(super) fn plain(c: char) -> char {
    if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }
}

/// A line with passwords of addresses starred out: faults end up in logs. What stands between `://`
/// and the last `@` may be one, whatever is in it, and what is called so is one. No character moves.
pub(super) fn masked(line: &str) -> String {
    let Some((head, tail)) = line.split_once("://") else { return line.to_owned() };
    let (secret, rest) = tail.split_at(tail.rfind('@').unwrap_or_default());
    let mut out = format!("{head}://");
    out.extend(secret.chars().map(|_| '*'));
    push_without_passwords(&mut out, rest);
    out
}

/// Parameters of an address, the value of `password` starred out.
fn push_without_passwords(out: &mut String, address: &str) {
    for part in address.split_inclusive(['?', '&']) {
        match part.split_once('=') {
            Some((name, value)) if name.to_ascii_lowercase().contains("password") => {
                out.extend([name, "="]);
                out.extend(value.chars().map(|c| if c == '&' { c } else { '*' }));
            }
            _ => out.push_str(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, part: &str) -> String {
        let start = text.find(part).unwrap();
        Source::new("f", text).snippet(start, start + part.len(), &[]).to_string()
    }

    #[test]
    fn a_part_is_underlined() {
        assert_eq!(shown("a = 1\nb = 23\r\n", "23"), "    2 | b = 23\n      |     ^^");
        assert_eq!(shown("\tä = 1", "1"), "    1 | \tä = 1\n      | \t    ^");
        assert_eq!(shown("\u{feff}ab = 1", "ab"), "    1 | ab = 1\n      | ^^");
        assert_eq!(shown("a = [\n1\n]", "[\n1\n]"), "    1 | a = [\n      |     ^");
        assert_eq!(shown("a\u{1b}[1m", "[1m"), "    1 | a\u{fffd}[1m\n      |   ^^^");
    }

    #[test]
    fn the_end_of_the_file_is_behind_its_last_word() {
        let snippet = Source::new("f", "a = [1\n\n").snippet(8, 8, &[]);
        assert_eq!((snippet.line, snippet.column), (1, 7));
        let snippet = Source::new("f", "").snippet(3, 9, &[]);
        assert_eq!((snippet.line, snippet.column), (1, 1));
    }

    #[test]
    fn of_a_long_line_only_the_surroundings_are_shown() {
        let text = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let snippet = shown(&text, "X");
        assert_eq!(snippet.lines().next().unwrap().len(), "    1 | ".len() + SHOWN_MAX);
        assert_eq!(
            snippet.find('X').unwrap(),
            snippet.find('^').unwrap() - snippet.find('\n').unwrap() - 1
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        for (text, expected) in [
            (r#"a = "redis://u:p@h/0" # x"#, r#"a = "redis://***@h/0" # x"#),
            (r#"a = "x://u:p"' :@h" # x"#, r#"a = "x://*******@h" # x"#),
            ("http://h/a://b:c@d and @", "http://****************@"),
            (r#""x://h?a=b&Password=c&d=e" f"#, r#""x://h?a=b&Password=*&d=e" f"#),
            ("nothing here", "nothing here"),
        ] {
            assert_eq!(masked(text), expected);
        }
    }

    #[test]
    fn what_is_hidden_is_starred_out_where_it_stands() {
        for (value, expected) in [
            (r#""postgres://u:p@h/d""#, r#""postgres://*******""#),
            (r#""postgres\u003a//u:p@h""#, r#""*********************""#),
            (r#""embedded:./data""#, r#""embedded:./data""#),
            ("12", "12"),
        ] {
            let text = format!("ä = 1\nstore = {value} # end");
            let span = 15..15 + value.len();
            let snippet = Source::new("f", &text).snippet(15, 16, std::slice::from_ref(&span));
            assert_eq!(snippet.shown, format!("store = {expected} # end"));
        }
    }
}
