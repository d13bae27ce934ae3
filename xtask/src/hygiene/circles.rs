//! Circles of files that import one another: to read one of them, one has to read all.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::imports::imports;
use crate::workspace::Workspace;

/// A known circle, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Circle {
    #[serde(rename = "crate")]
    name: String,
    files: Vec<String>,
}

/// The texts of a crate's files, by module.
pub(super) type Modules = BTreeMap<String, String>;

/// Returns unknown circles, and known ones that no longer exist.
pub(super) fn check(workspace: &Workspace, known: &[Circle]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in workspace.crates()? {
        let circles = circles(&modules(workspace, &name)?).context(name.clone())?;
        found.extend(circles.into_iter().map(|files| Circle {
            name: name.clone(),
            files,
        }));
    }
    let say = |it: &Circle, what: &str| {
        format!("crates/{}/src: {what}: {}", it.name, it.files.join(", "))
    };
    let new = found.iter().filter(|it| !known.contains(it));
    let new = new.map(|it| say(it, "these files import one another"));
    let gone = known.iter().filter(|it| !found.contains(it));
    Ok(new
        .chain(gone.map(|it| say(it, "no circle of imports any more; remove it from the list")))
        .collect())
}

pub(super) fn modules(workspace: &Workspace, name: &str) -> Result<Modules> {
    let folder = format!("crates/{name}/src");
    let mut modules = Modules::new();
    for (file, text) in workspace.texts(&folder, ".rs")? {
        // `a/b.rs` is the module `a::b`.
        let module = file[folder.len() + 1..].trim_end_matches(".rs");
        let module = module.strip_suffix("/mod").unwrap_or(module);
        // The root is left out, because it names all modules.
        if module != "lib" {
            modules.insert(module.replace('/', "::"), text);
        }
    }
    Ok(modules)
}

/// The end of the code before a text's test module.
pub(super) fn end(text: &str) -> usize {
    let marks = text.match_indices("\n#[cfg(").map(|(at, _)| at);
    let mut ends = marks.filter(|&at| {
        let mut lines = text[at + 1..].lines();
        let cfg = lines.next().unwrap_or_default();
        let item = lines.find(|line| !line.starts_with("#["));
        let is_module = |item: &str| item.starts_with("mod ") && item.ends_with('{');
        cfg.contains("test") && item.is_some_and(is_module)
    });
    ends.next().unwrap_or(text.len())
}

/// Sets of modules each of which imports all the others, directly or indirectly.
fn circles(modules: &Modules) -> Result<Vec<Vec<String>>> {
    let arrows = modules.keys();
    let arrows = arrows.map(|module| Ok((module.as_str(), imports(module, modules)?)));
    let arrows: BTreeMap<_, _> = arrows.collect::<Result<_>>()?;
    let reach = |from: &str| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            for to in &arrows[module] {
                if reached.insert(to.as_str()) {
                    next.push(to);
                }
            }
        }
        reached
    };
    let reached = arrows.keys().map(|&module| (module, reach(module)));
    let reached: BTreeMap<_, _> = reached.collect();
    let mut found = BTreeSet::new();
    for (&module, others) in &reached {
        if others.contains(module) {
            let circle = others
                .iter()
                .filter(|other| reached[*other].contains(module));
            found.insert(circle.map(ToString::to_string).collect());
        }
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(texts: &[(&str, &str)]) -> Modules {
        let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
        texts.iter().map(owned).collect()
    }

    #[test]
    fn files_that_import_one_another_are_a_circle() {
        let found = circles(&modules(&[
            ("a", "use crate::b::c::{Thing, other};"),
            ("b::c", "pub(crate) fn f(x: &super::super::d::X) {}"),
            ("d", "use super::{a, e::E};"),
            (
                "e",
                "// crate::a\n#[cfg(test)]\nmod tests {\nuse crate::a; }",
            ),
            ("f", "use crate::a::A;"),
        ]));
        assert_eq!(found.expect("they are parsed"), [["a", "b::c", "d"]]);
    }
}
