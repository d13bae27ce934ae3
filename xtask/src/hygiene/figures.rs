//! Statistics of the size and the prose of the workspace.
//!
//! - *Code lines* are lines in `src` that are neither blank nor a comment, up to a file's test
//!   module.
//! - *Imports* are pairs of files of which one names the other. *Rooms* are the
//!   files and folders directly below `src`, *arrows* the pairs of rooms with an import, *upward*
//!   the arrows to a higher layer of `hygiene.toml`.
//! - A *why-comment* is a run of `//` lines, or a trailing comment, that contains one of
//!   [`REASONS`].
//! - The four patterns of plain English are counted per 10,000 words of comments and pages,
//!   without code and tables.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use xshell::cmd;

use super::imports::imports;
use super::{circles, forks, last_part};
use crate::packages;
use crate::workspace::Workspace;

const REASONS: &str = "because, so that, otherwise, or else, must, never, before, after, until, \
                       since, lest, unless, would, safe, safety";
/// Words after which `what` or `who` has no noun.
const BEFORE: [&str; 17] = [
    "about", "after", "and", "as", "at", "before", "but", "by", "for", "from", "in", "of", "on",
    "or", "than", "to", "with",
];
const ODD: &str = "of late, so many, in the place of, to be had, comes to, came of, becomes of, \
                   is told, is heard";

pub(super) fn print(workspace: &Workspace, layers: &[Vec<String>], build: bool) -> Result<()> {
    println!(
        "{:<18} {:>5} {:>10} {:>20}",
        "crate", "files", "code lines", "why per 100 lines"
    );
    let [mut sources, mut tests, mut pages]: [Prose; 3] = Default::default();
    let mut all = Source::default();
    for name in workspace.crates()? {
        let mut source = Source::default();
        for (file, text) in workspace.texts(&format!("crates/{name}"), ".rs")? {
            let in_source = file.starts_with(&format!("crates/{name}/src/"));
            let end = if in_source { circles::end(&text) } else { 0 };
            let (code, of_tests) = text.split_at(end);
            source.add(code);
            sources.add(&comments(code));
            tests.add(&comments(of_tests));
        }
        println!("{name:<18} {source}");
        all.files += source.files;
        all.code += source.code;
        all.reasons += source.reasons;
    }
    println!("{:<18} {all}", "workspace");
    for (_, text) in workspace.texts("", ".md")? {
        pages.add(&page(&text));
    }
    let modules = circles::modules(workspace, "pool-core")?;
    println!("pool-core: {}", graph(&modules, layers)?);
    let api = workspace.read("docs/api/pool-core.txt")?;
    let of_internals = api.lines().filter(|line| line.contains("::internals::"));
    let (lines, internals) = (api.lines().count(), of_internals.count());
    println!("pool-core: {lines} public lines, of them {internals} of internals");
    let (mut calls, mut of_internals) = (0, 0);
    for name in packages::libraries(workspace)? {
        let list = workspace.read(format!("docs/api/{name}.txt"))?;
        let list = forks::calls(&name, &list)?;
        let list: Vec<_> = list.keys().filter(|it| puts_in(it)).collect();
        calls += list.len();
        of_internals += list
            .iter()
            .filter(|it| it.starts_with("internals::"))
            .count();
    }
    println!(
        "public functions that submit, spawn or reserve: {calls}, of them {of_internals} of internals"
    );
    if build {
        let shell = workspace.shell()?;
        let example = ["-p", "pool-core", "--example", "four_closures"];
        cmd!(shell, "cargo build --quiet --release {example...}").run()?;
        let program = workspace.target.join("release/examples/four_closures");
        let table = cmd!(shell, "size {program}").read()?;
        let row = table.lines().nth(1).unwrap_or_default();
        let size = row.split_whitespace().next().unwrap_or("?");
        println!("text of a program that runs four closures: {size} bytes");
    }
    println!("headless at the start / inside / `beside` / odd phrases, per 10,000 words:");
    println!("  sources {sources}; tests {tests}; pages {pages}");
    Ok(())
}

#[derive(Debug, Default)]
struct Source {
    files: usize,
    code: usize,
    reasons: usize,
}

impl Source {
    fn add(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.files += 1;
        let mut comment = String::new();
        for line in text.lines().map(str::trim).chain([""]) {
            let is_doc = line.starts_with("///") || line.starts_with("//!");
            let (code, words) = line.split_once("//").unwrap_or((line, ""));
            let is_code = !code.trim().is_empty() && !is_doc;
            self.code += usize::from(is_code);
            if is_code || is_doc || words.is_empty() {
                self.reasons += usize::from(is_reason(&comment));
                comment.clear();
            }
            if !is_doc {
                comment.push_str(words);
            }
        }
        self.reasons += usize::from(is_reason(&comment));
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reasons = per(100, self.reasons, self.code);
        write!(f, "{:>5} {:>10} {:>20}", self.files, self.code, reasons)
    }
}

/// Formats `base * count / all` with one decimal, rounded down.
fn per(base: usize, count: usize, all: usize) -> String {
    let tenths = (10 * base * count).checked_div(all).unwrap_or_default();
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn is_reason(comment: &str) -> bool {
    phrases(&words(comment), REASONS) > 0
}

/// Returns how often the phrases occur.
fn phrases(words: &[String], phrases: &str) -> usize {
    let text = format!(" {} ", words.join(" "));
    let counts = phrases
        .split(", ")
        .map(|it| text.matches(&format!(" {it} ")).count());
    counts.sum()
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|it: char| !it.is_alphanumeric() && it != '\'');
    let words = words.filter(|it| !it.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The comments of a source file, a paragraph per line, without code blocks.
fn comments(text: &str) -> String {
    let lines = text.lines().map(str::trim).map(|line| {
        let comment = line.strip_prefix("//").unwrap_or_default();
        comment.trim_start_matches(['/', '!']).trim()
    });
    page(&lines.collect::<Vec<_>>().join("\n"))
}

/// The prose of a page, a paragraph per line: no headings, tables, code blocks or code spans.
fn page(text: &str) -> String {
    let mut prose = String::new();
    let mut in_code = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if line.is_empty() || line.starts_with(['#', '|']) {
            prose.push('\n');
        } else if !in_code {
            let parts = line.trim_start_matches("- ").split('`').step_by(2);
            prose.extend(parts.flat_map(|it| [it, " X "]));
        }
    }
    prose.replace(" X  X ", " ")
}

/// Counts of the patterns of plain English.
#[derive(Default)]
struct Prose {
    words: usize,
    found: [usize; 4],
}

impl Prose {
    fn add(&mut self, prose: &str) {
        for paragraph in prose.lines() {
            for sentence in paragraph.split_inclusive(['.', '?', '!', ';']) {
                self.sentence(sentence);
            }
        }
    }

    fn sentence(&mut self, sentence: &str) {
        let words = words(sentence);
        let is = |at: usize, any: &[&str]| words.get(at).is_some_and(|word| any.contains(&&**word));
        self.words += words.len();
        let is_those = |at| is(at, &["those"]) && is(at + 1, &["that", "who"]);
        let is_headless = |at| is(at, &["what", "who", "whoever", "whatever"]) || is_those(at);
        let is_question = sentence.ends_with('?');
        self.found[0] += usize::from(is_headless(0) && !is_question);
        let inside = (1..words.len()).filter(|&at| is_headless(at) && is(at - 1, &BEFORE));
        self.found[1] += inside.count();
        self.found[2] += words.iter().filter(|word| *word == "beside").count();
        self.found[3] += phrases(&words, ODD);
    }
}

impl std::fmt::Display for Prose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let figures = self.found.map(|count| per(10_000, count, self.words));
        f.write_str(&figures.join(" / "))
    }
}

fn graph(modules: &circles::Modules, layers: &[Vec<String>]) -> Result<String> {
    let room = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let layer = |room: &String| layers.iter().position(|layer| layer.contains(room));
    let rooms: BTreeSet<_> = modules.keys().map(|it| room(it)).collect();
    let mut count = 0;
    let mut arrows: BTreeMap<_, _> = BTreeMap::new();
    for module in modules.keys() {
        for to in imports(module, modules)? {
            count += 1;
            let (from, to) = (room(module), room(&to));
            if from != to {
                let layers = layer(&from).zip(layer(&to));
                arrows.insert((from, to), layers.is_some_and(|(from, to)| to < from));
            }
        }
    }
    let upward = arrows.iter().filter(|(_, is_upward)| **is_upward);
    let upward = upward.map(|((from, to), _)| format!("{from} -> {to}"));
    let upward: Vec<_> = upward.collect();
    let without = rooms.iter().filter(|room| layer(room).is_none()).count();
    Ok(format!(
        "{count} imports between files, {} rooms ({without} without a layer), {} arrows, {} upward {}",
        rooms.len(),
        arrows.len(),
        upward.len(),
        upward.join(", ")
    ))
}

/// Whether a function puts work into a pool, by its name.
fn puts_in(call: &str) -> bool {
    let name = last_part(call);
    let mut words = ["submit", "spawn", "reserve"].iter();
    words.any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_counts_once_and_only_with_a_reason() {
        let mut source = Source::default();
        source.add("/// must\nfn a() {\n    // So that it\n    // must not.\n    b(); // never\n    // A thing.\n}\n");
        assert_eq!((source.files, source.code, source.reasons), (1, 3, 2));
    }

    #[test]
    fn headless_relatives_are_counted_outside_of_questions_and_code() {
        let mut prose = Prose::default();
        prose.add(&page("What waits is lost. What is it? By what is\nthere, `by what` and those that go.\n\n| who |\n"));
        assert_eq!(prose.found, [1, 2, 0, 0]);
        prose.add(&comments(
            "/// It lies beside so many.\n/// ```\n/// beside();\n/// ```\nlet beside = 1;\n",
        ));
        assert_eq!(prose.found, [1, 2, 1, 1]);
    }

    #[test]
    fn an_import_of_a_higher_layer_points_upward() {
        let texts = [
            ("face::a", ""),
            ("sched::b", "use crate::face::a::A;"),
            ("c", "use crate::face::a;"),
        ];
        let modules = texts
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        let layers = [vec!["face".to_owned()], vec!["sched".to_owned()]];
        let expected = "2 imports between files, 3 rooms (1 without a layer), 2 arrows, 1 upward sched -> face";
        assert_eq!(graph(&modules, &layers).expect("they are parsed"), expected);
    }

    #[test]
    fn calls_are_counted_by_their_names() {
        assert!(puts_in("Pool::try_submit") && puts_in("spawn"));
        assert!(!puts_in("submitted::reason"));
    }
}
