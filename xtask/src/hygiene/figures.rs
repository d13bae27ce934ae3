//! Statistics of the size of the workspace.
//!
//! - *Code lines* are lines in `src` that are neither blank nor a comment, up to a file's test
//!   module.
//! - *Imports* are pairs of files of which one names the other. *Rooms* are the files and folders
//!   directly below `src`, *arrows* the pairs of rooms with an import, *upward* the arrows to a
//!   higher layer of `hygiene.toml`. An upward arrow that is not listed there is an offence.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Deserialize;
use xshell::cmd;

use super::imports::imports;
use super::{circles, forks, last_part};
use crate::packages;
use crate::workspace::Workspace;

/// The layers of a crate's rooms, from the highest down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rooms {
    #[serde(rename = "crate")]
    name: String,
    layers: Vec<Vec<String>>,
    #[serde(default)]
    upward: Vec<String>,
}

/// Prints the statistics, and returns the offences.
pub(super) fn print(workspace: &Workspace, rooms: &[Rooms], build: bool) -> Result<Vec<String>> {
    println!("{:<18} {:>5} {:>10}", "crate", "files", "code lines");
    let (mut all_files, mut all_code) = (0, 0);
    for name in workspace.crates()? {
        let texts = workspace.texts(&format!("crates/{name}/src"), ".rs")?;
        let code = texts
            .iter()
            .map(|(_, text)| code_lines(text))
            .sum::<usize>();
        println!("{name:<18} {:>5} {code:>10}", texts.len());
        all_files += texts.len();
        all_code += code;
    }
    println!("{:<18} {all_files:>5} {all_code:>10}", "workspace");
    let mut offences = Vec::new();
    for rooms in rooms {
        let modules = circles::modules(workspace, &rooms.name)?;
        let (figures, upward) = graph(&modules, &rooms.layers)?;
        println!("{}: {figures}", rooms.name);
        if upward != rooms.upward {
            offences.push(format!(
                "{}: the arrows {upward:?} point upward, and {:?} are listed",
                rooms.name, rooms.upward
            ));
        }
    }
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
    Ok(offences)
}

fn code_lines(text: &str) -> usize {
    let lines = text[..circles::end(text)].lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    code.count()
}

/// Returns the statistics of a crate's rooms, and its upward arrows.
fn graph(modules: &circles::Modules, layers: &[Vec<String>]) -> Result<(String, Vec<String>)> {
    let room = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let layer = |room: &String| layers.iter().position(|layer| layer.contains(room));
    let rooms: BTreeSet<_> = modules.keys().map(|it| room(it)).collect();
    let mut count = 0;
    let mut arrows: BTreeMap<_, _> = BTreeMap::new();
    for module in modules.keys().filter(|it| last_part(it) != "tests") {
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
    let figures = format!(
        "{count} imports between files, {} rooms ({without} without a layer), {} arrows, {} upward",
        rooms.len(),
        arrows.len(),
        upward.len()
    );
    Ok((figures, upward))
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
    fn blank_lines_comments_and_test_modules_are_no_code() {
        let text = "/// Doc.\nfn a() {\n\n    // Why.\n    b(); // never\n}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(code_lines(text), 3);
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
        let (figures, upward) = graph(&modules, &layers).expect("they are parsed");
        let expected = "2 imports between files, 3 rooms (1 without a layer), 2 arrows, 1 upward";
        assert_eq!(figures, expected);
        assert_eq!(upward, ["sched -> face"]);
    }

    #[test]
    fn calls_are_counted_by_their_names() {
        assert!(puts_in("Pool::try_submit") && puts_in("spawn"));
        assert!(!puts_in("submitted::reason"));
    }
}
