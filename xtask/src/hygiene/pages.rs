//! Rules for Markdown pages.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Result;
use pulldown_cmark::{Event, Parser, Tag};

use super::{is_word, last_part, spans};
use crate::cmutants;
use crate::workspace::Workspace;

/// Pages about the libraries that inspired the crates. Tests of each promise are in the last
/// column.
const PROMISES: [&str; 3] = ["docs/ants.md", "docs/client-go.md", "docs/java-delay.md"];
/// Cite tests, and other names as well.
const PROOFS: [&str; 2] = ["docs/testing.md", "docs/decisions/process-wide.md"];
/// Has a row per model.
const MODELS: &str = "docs/models.tsv";
/// Folders that exist only on some machines.
const MACHINE: [&str; 3] = ["/home/", "/root/", "/tmp/"];

/// Returns the offences in all pages.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for (name, text) in workspace.texts("", ".md")? {
        offences.extend(check_page(&workspace.root, &name, &text));
    }
    let mut functions = HashSet::new();
    for (_, text) in workspace.texts("", ".rs")? {
        functions.extend(function_names(&text).map(str::to_owned));
    }
    for page in PROMISES.iter().chain(&PROOFS) {
        let missing = cited_tests(&workspace.read(page)?)
            .into_iter()
            .filter(|(_, test)| !PROOFS.contains(page) || is_sentence(test))
            .filter(|(_, test)| !functions.contains(test));
        offences.extend(missing.map(|(line, test)| format!("{page}:{line}: no test `{test}`")));
    }
    for (place, part) in recorded_tests(workspace)? {
        if !functions.iter().any(|function| function.contains(&part)) {
            offences.push(format!("{place}: no test `{part}`"));
        }
    }
    Ok(offences)
}

/// The tests that mutants and the list of models name, or parts of their names.
fn recorded_tests(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let mut tests = Vec::new();
    for mutant in cmutants::load(workspace)? {
        let filters = mutant.tests.iter().map(|filter| &filter.part);
        for filter in filters.chain(&mutant.models) {
            tests.push((format!("mutant {}", mutant.id), own_name(filter)));
        }
    }
    for line in workspace.read(MODELS)?.lines().skip(1) {
        tests.push((MODELS.to_owned(), own_name(line)));
    }
    Ok(tests)
}

/// The last part of a test's path, without the following remark or columns.
fn own_name(path: &str) -> String {
    let path = path.split([' ', '\t']).next().unwrap_or(path);
    last_part(path).to_owned()
}

fn check_page(root: &Path, name: &str, text: &str) -> Vec<String> {
    let mut offences = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if MACHINE.iter().any(|folder| begins_a_path(text, folder)) {
            offences.push(format!("{name}:{line}: a path of a particular machine"));
        }
    }
    let page = root.join(name);
    for (offset, file) in links(text) {
        if !page.with_file_name("").join(&file).exists() {
            let line = 1 + text[..offset].matches('\n').count();
            offences.push(format!("{name}:{line}: {file} does not exist"));
        }
    }
    offences
}

fn begins_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(index, _)| {
        let before = line[..index].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !"_-./~}".contains(before))
    })
}

/// The files in links and link definitions of a page, without their fragments.
fn links(text: &str) -> Vec<(usize, String)> {
    let parser = Parser::new(text);
    let definitions = parser.reference_definitions().iter();
    let definitions = definitions.map(|(_, link)| (link.span.start, link.dest.to_string()));
    let mut links: Vec<(usize, String)> = definitions.collect();
    for (event, span) in parser.into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            links.push((span.start, dest_url.into_string()));
        }
    }
    let files = links.into_iter().filter_map(|(offset, target)| {
        let file = target.split('#').next()?;
        let elsewhere = file.is_empty()
            || file.contains("://")
            || file.starts_with("mailto:")
            || file.starts_with("crate::"); // A page of rustdoc, which rustdoc checks.
        (!elsewhere).then(|| (offset, file.to_owned()))
    });
    files.collect()
}

/// The tests in the last column of the page's tables, with their line numbers.
fn cited_tests(text: &str) -> Vec<(usize, String)> {
    let mut tests = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let row = text.trim().trim_end_matches('|');
        // A line without a bar is no row.
        let last = row.rsplit_once('|').map_or("", |(_, last)| last);
        tests.extend(spans(last).map(|code| (line, last_part(code).to_owned())));
    }
    tests
}

/// Whether a name can only be that of a test: a sentence of at least five words.
fn is_sentence(name: &str) -> bool {
    let is_part = |it| matches!(it, 'a'..='z' | '0'..='9' | '_');
    name.matches('_').count() >= 4 && name.chars().all(is_part)
}

/// The names after `fn` in a source file.
fn function_names(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(str::trim_start);
    let code = code.filter(|line| !line.starts_with("//"));
    code.filter_map(|line| {
        let (before, rest) = line.split_once("fn ")?;
        let is_keyword = before.is_empty() || before.ends_with(' ');
        rest.split(|it| !is_word(it)).next().filter(|_| is_keyword)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_files_are_checked() {
        let files = |text| -> Vec<String> { links(text).into_iter().map(|link| link.1).collect() };
        assert_eq!(
            files("see [a](a.md), [b](../b.md#part) and ![c](<x y>)"),
            ["a.md", "../b.md", "x y"]
        );
        assert_eq!(files("[a]: docs/a.md \"title\""), ["docs/a.md"]);
        for text in [
            "[a](https://a.b/c)",
            "<https://a.b/c>",
            "[a](#part)",
            "`[a](a.md)`",
            "an [a] and (b)",
        ] {
            assert_eq!(files(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_dead_link_is_an_offence_except_in_a_code_block() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = "page.md";
        assert_eq!(check_page(root, page, "[a](src/main.rs)"), [""; 0]);
        let offences = check_page(root, page, "a\n\n[a](gone.rs)");
        assert_eq!(offences, ["page.md:3: gone.rs does not exist"]);
        assert_eq!(check_page(root, page, "```\n[a](gone.rs)\n```"), [""; 0]);
    }

    #[test]
    fn functions_are_found_in_code_only() {
        let text = "fn a() {}\n    pub async fn b<T>() {}\n// fn c()\nlet often = 1;";
        assert_eq!(function_names(text).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_machine_path_is_one_that_begins_at_the_root() {
        for (line, expected) in [
            ("/home/me/x", 1),
            ("in `/tmp/x`", 1),
            ("\"/root/.cargo\"", 1),
            ("target/tmp/x", 0),
            ("https://a.b/home/", 0),
            ("~/tmp/x", 0),
        ] {
            let offences = check_page(Path::new(""), "p.md", line);
            assert_eq!(offences.len(), expected, "{line}");
        }
    }

    #[test]
    fn cited_tests_are_in_the_last_column() {
        let page = "| promise | test |\n|---|---|\n| `Pool` runs | `a_test`, `it::b_test` |\n`c`";
        let expected = [(3, "a_test".to_owned()), (3, "b_test".to_owned())];
        assert_eq!(cited_tests(page), expected);
    }

    #[test]
    fn recorded_tests_are_known_by_the_last_parts_of_their_paths() {
        for path in ["name", "a::b::name", "name (two locks)\t2\t9"] {
            assert_eq!(own_name(path), "name");
        }
    }
}
