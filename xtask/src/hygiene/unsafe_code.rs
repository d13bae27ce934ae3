//! The rule for `unsafe`: each block has a row in the table next to it, which says what user code may
//! run while its invariant is suspended, and which tests show that such code may panic and call back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::workspace::Workspace;

/// Lies in each `src` folder with unsafe code.
const PAGE: &str = "UNSAFE.md";
const HEADER: &str =
    "| unsafe code | invariant | suspended | user code meanwhile | it panics | it calls back |";
/// What the fourth column begins with where no user code runs, and the reason behind it.
const NONE: &str = "none: ";

/// How often `unsafe` stands in an item, by `file: item`.
type Uses = BTreeMap<String, usize>;

/// Names the offences.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut folders: BTreeMap<String, Uses> = BTreeMap::new();
    let mut pages = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for path in workspace.files("")? {
        let name = path.to_string_lossy().into_owned();
        let in_source = name.split_once("/src/");
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = workspace.read(&path)?;
            tests.extend(test_names(&text));
            if let Some((package, file)) = in_source {
                let folder = folders.entry(format!("{package}/src")).or_default();
                folder.extend(uses(file, &text));
            }
        } else if let Some((package, PAGE)) = in_source {
            pages.insert(format!("{package}/src"), workspace.read(&path)?);
        }
    }
    folders.retain(|folder, uses| !uses.is_empty() || pages.contains_key(folder));
    let check = |(folder, uses): (&String, &Uses)| match pages.get(folder) {
        Some(page) => check_page(&format!("{folder}/{PAGE}"), page, uses, &tests),
        None => vec![format!("{folder}: has unsafe code and no {PAGE}")],
    };
    Ok(folders.iter().flat_map(check).collect())
}

/// Compares a page with the code beside it.
fn check_page(name: &str, page: &str, uses: &Uses, tests: &BTreeSet<String>) -> Vec<String> {
    let mut offences = Vec::new();
    let mut listed = Uses::new();
    for (line, row) in rows(page) {
        let mut offend = |what: String| offences.push(format!("{name}:{line}: {what}"));
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [code, _, _, user_code, panics, calls_back] = cells[..] else {
            offend("a row has six columns".to_owned());
            continue;
        };
        if cells.iter().any(|cell| cell.is_empty()) {
            offend("a cell is empty".to_owned());
        }
        for (item, count) in items(code) {
            if listed.insert(item.clone(), count).is_some() {
                offend(format!("`{item}` has a row already"));
            }
        }
        for (cell, what) in [(panics, "panics"), (calls_back, "calls back")] {
            let cited: Vec<_> = spans(cell).map(last_part).collect();
            if cited.is_empty() && !user_code.starts_with(NONE) {
                offend(format!("no test has the user code of that row that {what}"));
            }
            let missing = cited.iter().filter(|test| !tests.contains(**test));
            missing.for_each(|test| offend(format!("no test `{test}`")));
        }
    }
    for (item, count) in uses {
        match listed.get(item) {
            None => offences.push(format!("{name}: no row for `{item}`")),
            Some(listed) if listed != count => offences.push(format!(
                "{name}: `{item}` has {count} uses of `unsafe`, not {listed}"
            )),
            Some(_) => {}
        }
    }
    let stale = listed.keys().filter(|item| !uses.contains_key(*item));
    offences.extend(stale.map(|item| format!("{name}: `{item}` has no unsafe code")));
    offences
}

/// The rows of the tables with that header, with their lines.
fn rows(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        inside = line == HEADER || (inside && line.starts_with('|'));
        let is_row = inside && line != HEADER && !line.starts_with("|--");
        is_row.then_some((index + 1, line))
    })
}

/// The items of a row's first column: a file, then what is in it, each with its number of uses unless
/// that is one.
fn items(cell: &str) -> Vec<(String, usize)> {
    let mut file = "";
    let mut items = Vec::new();
    for span in spans(cell) {
        if Path::new(span).extension().is_some() {
            file = span;
            continue;
        }
        let (item, count) = span.split_once(" ×").unwrap_or((span, "1"));
        // A number that is none is not that of the code.
        items.push((format!("{file}: {item}"), count.parse().unwrap_or(0)));
    }
    items
}

/// What stands between backticks.
fn spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn last_part(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The uses of `unsafe` in a file, but for its tests: blocks and functions by the function that they
/// are in, `impl`s by trait and type. As rustfmt lays code out.
fn uses(file: &str, text: &str) -> Uses {
    let mut uses = Uses::new();
    let mut owner = None;
    // Functions around the line, each with its indentation.
    let mut functions: Vec<(usize, String)> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(") && line.contains("test") {
            let module = lines.peek().is_some_and(|next| next.starts_with("mod "));
            if module && !lines.peek().is_some_and(|next| next.ends_with(';')) {
                break; // The tests come last.
            }
        }
        let code = code(line);
        let trimmed = code.trim_start();
        let indent = code.len() - trimmed.len();
        if trimmed.is_empty() {
            continue;
        }
        if indent == 0 && is_header(trimmed) {
            owner = Some(owner_of(trimmed));
        }
        let function = function_name(trimmed);
        if function.is_some() || trimmed.starts_with('}') {
            functions.retain(|(outer, _)| *outer < indent);
        }
        if let Some(name) = function {
            functions.push((indent, name.to_owned()));
        }
        let item = match (&owner, functions.last()) {
            (Some((of, _)), Some((_, function))) => format!("{of}::{function}"),
            (Some((_, whole)), None) => whole.clone(),
            (None, Some((_, function))) => function.clone(),
            (None, None) => trimmed.to_owned(),
        };
        let count = count(&code);
        if count > 0 {
            *uses.entry(format!("{file}: {item}")).or_default() += count;
        }
        // It ends in the line in which it begins.
        if trimmed.ends_with(['}', ';']) {
            functions.retain(|(outer, _)| *outer < indent);
            owner = owner.filter(|_| indent > 0);
        }
    }
    uses
}

/// The line without comments and the contents of strings.
fn code(line: &str) -> String {
    let mut code = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['"', '/']) {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("//") {
            return code;
        }
        let end = if let Some(inside) = rest.strip_prefix('"') {
            let inside = inside.replace("\\\\", "__").replace("\\\"", "__");
            inside.find('"').map_or(rest.len(), |end| end + 2)
        } else {
            1
        };
        rest = &rest[end..];
    }
    code + rest
}

/// Blocks, functions, implementations and traits; not the types of functions.
fn count(code: &str) -> usize {
    let starts = ["{", "fn ", "impl", "trait ", "extern "];
    let after = code.split("unsafe ").skip(1);
    after
        .filter(|rest| starts.iter().any(|start| rest.starts_with(start)))
        .count()
}

fn is_header(code: &str) -> bool {
    let code = code.trim_start_matches("unsafe ");
    let code = code
        .trim_start_matches("pub ")
        .trim_start_matches("pub(crate) ");
    code.starts_with("impl") || code.starts_with("trait ") || code.starts_with("unsafe trait ")
}

/// The type or trait of a header, and `Trait for Type`.
fn owner_of(header: &str) -> (String, String) {
    let plain = without_generics(header);
    let words: Vec<_> = plain.split_whitespace().collect();
    let name = |word: &str| {
        let name = last_part(word).trim_end_matches([':', '{', ';']);
        name.to_owned()
    };
    let at = |word: &str| words.iter().position(|other| *other == word);
    let after = |at: Option<usize>| name(words.get(at.map_or(0, |at| at + 1)).unwrap_or(&""));
    if let Some(middle) = at("for") {
        let (of, owner) = (name(words[middle - 1]), after(Some(middle)));
        return (owner.clone(), format!("{of} for {owner}"));
    }
    let owner = after(at("impl").or(at("trait")));
    (owner.clone(), owner)
}

fn without_generics(header: &str) -> String {
    let mut depth = 0;
    let mut before = ' ';
    let plain = header.chars().filter(|&character| {
        // (The `>` of an arrow closes nothing.)
        match character {
            '<' => depth += 1,
            '>' if before != '-' => {
                depth -= 1;
                before = character;
                return false;
            }
            _ => {}
        }
        before = character;
        depth == 0
    });
    plain.collect()
}

/// The name of the function that begins in this line, unless it ends there.
fn function_name(code: &str) -> Option<&str> {
    let (before, rest) = code.split_once("fn ")?;
    let is_declared = before.split_whitespace().all(|word| {
        ["pub", "const", "async", "unsafe", "extern", "\"\""].contains(&word)
            || word.starts_with("pub(")
    });
    let end = rest.find(|character: char| !character.is_alphanumeric() && character != '_')?;
    (is_declared && end > 0).then(|| &rest[..end])
}

/// The functions behind `#[test]` and the attributes of testkit.
fn test_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line == "#[test]" || line.starts_with("#[testkit::") {
            is_test = true;
        } else if is_test && let Some(name) = function_name(line) {
            names.push(name.to_owned());
            is_test = false;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
//! Not `unsafe {` here.
unsafe impl<T: ?Sized + Send> Sync for Cell<T> {}

struct Table {
    drop: unsafe fn(*mut u8),
}

impl<F: Fn() -> u8> Cell<F> {
    unsafe fn content(&self) -> &F {
        // SAFETY: unsafe { } is a comment.
        unsafe { &*self.0 }
    }

    fn both(
        &self,
    ) -> [u8; 2] {
        let name = "unsafe { }";
        unsafe { [self.a(), unsafe { self.b() }] }
    }
}

fn free() {
    unsafe fn inner() {}
    // SAFETY: none.
    unsafe { inner() };
}

#[cfg(test)]
mod tests {
    fn not_counted() {
        unsafe { x() }
    }
}
"#;

    fn page(rows: &[&str]) -> String {
        format!(
            "# Page\n\n{HEADER}\n|--|--|--|--|--|--|\n{}\n",
            rows.join("\n")
        )
    }

    fn offences(rows: &[&str]) -> Vec<String> {
        let tests =
            test_names("#[test]\nfn it_panics() {}\n#[testkit::test]\n#[cfg(x)]\nfn it_asks() {}");
        let tests = tests.into_iter().collect();
        check_page("UNSAFE.md", &page(rows), &uses("a.rs", SOURCE), &tests)
    }

    const FIRST: &str = "| `a.rs` `Sync for Cell`, `Cell::content ×2`, `Cell::both ×2` | i | never | none: a look | – | – |";
    const SECOND: &str =
        "| `a.rs` `free`, `free::x` | i | w | a body | `m::it_panics` | `it_asks` |";
    const LAST: &str = "| `a.rs` `free`, `inner` | i | w | a body | `m::it_panics` | `it_asks` |";

    #[test]
    fn uses_are_counted_by_the_item_that_they_are_in() {
        let uses: Vec<_> = uses("a.rs", SOURCE).into_iter().collect();
        let expected = [
            ("a.rs: Cell::both", 2),
            ("a.rs: Cell::content", 2),
            ("a.rs: Sync for Cell", 1),
            ("a.rs: free", 1),
            ("a.rs: inner", 1),
        ];
        let expected: Vec<_> = expected
            .map(|(item, count)| (item.to_owned(), count))
            .into();
        assert_eq!(uses, expected);
    }

    #[test]
    fn a_page_that_lists_each_use_once_is_clean() {
        assert_eq!(offences(&[FIRST, LAST]), [""; 0]);
    }

    #[test]
    fn code_without_a_row_and_a_row_without_code_are_offences() {
        let missing = [
            "UNSAFE.md: no row for `a.rs: free`",
            "UNSAFE.md: no row for `a.rs: inner`",
        ];
        assert_eq!(offences(&[FIRST]), missing);
        let expected = [
            "UNSAFE.md: no row for `a.rs: inner`",
            "UNSAFE.md: `a.rs: free::x` has no unsafe code",
        ];
        assert_eq!(offences(&[FIRST, SECOND]), expected);
        let twice = [
            "UNSAFE.md:7: `a.rs: free` has a row already",
            "UNSAFE.md:7: `a.rs: inner` has a row already",
        ];
        assert_eq!(offences(&[FIRST, LAST, LAST]), twice);
    }

    #[test]
    fn one_more_block_in_a_listed_function_is_an_offence() {
        let row = FIRST.replace("both ×2", "both");
        let expected = ["UNSAFE.md: `a.rs: Cell::both` has 2 uses of `unsafe`, not 1"];
        assert_eq!(offences(&[&row, LAST]), expected);
    }

    #[test]
    fn a_row_whose_user_code_has_no_test_or_one_that_is_gone_is_an_offence() {
        let row = LAST.replace("`it_asks`", "–");
        let expected = ["UNSAFE.md:6: no test has the user code of that row that calls back"];
        assert_eq!(offences(&[FIRST, &row]), expected);
        let row = LAST.replace("it_asks", "it_asked");
        assert_eq!(
            offences(&[FIRST, &row]),
            ["UNSAFE.md:6: no test `it_asked`"]
        );
        let row = FIRST.replace("none: a look", "none");
        assert_eq!(offences(&[&row, LAST]).len(), 2, "without a reason");
    }

    #[test]
    fn a_row_with_an_empty_cell_or_too_few_is_an_offence() {
        let row = LAST.replace("| w |", "|  |");
        assert_eq!(offences(&[FIRST, &row]), ["UNSAFE.md:6: a cell is empty"]);
        let row = LAST.replace("| w |", "|");
        let first = offences(&[FIRST, &row]).remove(0);
        assert_eq!(first, "UNSAFE.md:6: a row has six columns");
    }
}
