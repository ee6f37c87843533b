//! The words of comments and pages: those of the field, and no persons where there are programs.

use std::path::Path;

use crate::files::{files, read};

/// What is not written, and what is written instead.
const REFUSED: [(&[&str], &str); 5] = [
    (
        &["nobody", "somebody", "everybody", "anybody", "whoever", "whom"],
        "name the program: the caller, the client, the holder, no other process",
    ),
    (&["told", "unheard", "anew"], "reported, answered, not acknowledged, again"),
    (&["desk", "herald", "errand", "lookout"], "queue, publisher, job, monitor"),
    (&["patience", "farewell", "tenure"], "timeout, shutdown, lease"),
    (&["crowd", "crowds", "lane", "lanes", "forsake", "forsaken"], "backlog, connection, abandon"),
];

/// Files that speak of these words, or of the past.
const EXCEPT: [&str; 2] = ["tests/tidy/src/words.rs", "CHANGELOG.md"];

#[test]
fn comments_and_pages_have_the_words_of_the_field() {
    let mut found = Vec::new();
    for path in files(&[".rs", ".sql", ".lua", ".py", ".sh", ".md"]) {
        if EXCEPT.iter().any(|except| path.ends_with(except)) {
            continue;
        }
        let text = read(&path);
        for (line, prose) in prose(&path, &text) {
            found.extend(
                refused(prose).map(|(word, cure)| {
                    format!("{}:{line}: {word} (write: {cure})", path.display())
                }),
            );
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What is written for readers: comments of code, and pages without their blocks of code. With the numbers of the lines.
fn prose<'a>(path: &Path, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let (marks, is_page): (&[&str], _) = match ending {
        "rs" => (&["//"], false),
        "sql" | "lua" => (&["--"], false),
        "py" | "sh" => (&["#"], false),
        _ => (&[], true),
    };
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let is_comment = || marks.iter().any(|mark| line.trim_start().starts_with(mark));
        let is_prose = if is_page { !is_code } else { is_comment() };
        is_prose.then_some((number + 1, line))
    })
}

/// The refused words of a line, and what to write. Quoted code is left out.
fn refused(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
    let words: Vec<String> =
        plain.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect();
    REFUSED.iter().flat_map(move |(refused, cure)| {
        let is_there = |word: &&&str| words.iter().any(|it| it == **word);
        let present: Vec<_> = refused.iter().filter(is_there).map(|word| (*word, *cure)).collect();
        present
    })
}

#[test]
fn words_are_found_in_prose_and_not_in_code() {
    let found = |line| refused(line).map(|(word, _)| word).collect::<Vec<_>>();
    assert_eq!(found("/// Whoever asks is told."), ["whoever", "told"]);
    assert!(found("the role `nobody` of a plane").is_empty());
    let page = "told\n```\ntold\n```\n";
    let lines: Vec<_> = prose(Path::new("a.md"), page).map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 4]);
    let code = "let told = 1;\n    // told\n";
    let lines: Vec<_> = prose(Path::new("a.rs"), code).map(|(line, _)| line).collect();
    assert_eq!(lines, [2]);
}
