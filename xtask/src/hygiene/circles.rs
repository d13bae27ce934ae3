//! Files that import one another in a circle: to read one of them is to read all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::workspace::Workspace;

/// The circles there are, each sorted. One that is not among them is an offence, and so is one of
/// these that has gone.
const KNOWN: [(&str, &[&str]); 3] = [
    (
        "pool-core",
        &[
            "engine::core",
            "engine::discard",
            "engine::runner",
            "engine::worker",
        ],
    ),
    (
        "pool-core",
        &[
            "task::cell",
            "task::current",
            "task::promise",
            "task::record",
            "task::run",
            "task::span",
        ],
    ),
    ("pool-core", &["keyed", "keyed::turn"]),
];

type Modules = BTreeMap<String, String>;

/// Names the offences in the sources of all crates.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in workspace.crates()? {
        let folder = format!("crates/{name}/src");
        let mut modules = Modules::new();
        for path in workspace.files(&folder)? {
            if let Some(module) = module_of(path.strip_prefix(&folder)?) {
                modules.insert(module, workspace.read(&path)?);
            }
        }
        found.extend(circles(&modules).into_iter().map(|it| (name.clone(), it)));
    }
    Ok(compare(&found))
}

fn compare(found: &[(String, Vec<String>)]) -> Vec<String> {
    let is_known =
        |(name, circle): &(String, Vec<String>)| KNOWN.contains(&(name.as_str(), &names(circle)));
    let new = found.iter().filter(|one| !is_known(one)).map(|(name, it)| {
        let files = it.join(", ");
        format!("crates/{name}/src: these files import one another: {files}")
    });
    let is_found = |&&(name, circle): &&(&str, &[&str])| {
        found
            .iter()
            .any(|(other, it)| other == name && names(it) == circle)
    };
    let gone = KNOWN.iter().filter(|one| !is_found(one)).map(|(name, it)| {
        let files = it.join(", ");
        format!("crates/{name}/src: no circle of imports any more, take it off the list: {files}")
    });
    new.chain(gone).collect()
}

fn names(circle: &[String]) -> Vec<&str> {
    circle.iter().map(String::as_str).collect()
}

/// `a/b.rs` is the module `a::b`. The root is left out: it names all.
fn module_of(path: &Path) -> Option<String> {
    let path = path.to_str()?.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    (path != "lib").then(|| path.replace('/', "::"))
}

/// The modules that a module's text names, tests and comments left out.
fn imports(module: &str, modules: &Modules) -> BTreeSet<String> {
    let text = &modules[module];
    let end = ["#[cfg(test)]", "#[cfg(all(test"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
        .unwrap_or(text.len());
    let code = text[..end]
        .lines()
        .filter_map(|line| line.split("//").next());
    let paths = code.flat_map(|line| line.split("crate::").skip(1));
    let mut found: BTreeSet<_> = paths.filter_map(|path| target(path, modules)).collect();
    found.remove(module);
    found
}

/// The longest module that a path begins with.
fn target(path: &str, modules: &Modules) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let path = &path[..path.find(|c| !is_part(c)).unwrap_or(path.len())];
    let parts: Vec<_> = path.split("::").collect();
    (1..=parts.len())
        .rev()
        .map(|length| parts[..length].join("::"))
        .find(|name| modules.contains_key(name))
}

/// Sets of modules each of which leads to all the others.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let arrows: BTreeMap<_, _> = modules
        .keys()
        .map(|module| (module.as_str(), imports(module, modules)))
        .collect();
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
    let reached: BTreeMap<_, _> = arrows
        .keys()
        .map(|&module| (module, reach(module)))
        .collect();
    let mut found = BTreeSet::new();
    for (&module, others) in &reached {
        if others.contains(module) {
            let circle = others
                .iter()
                .filter(|&other| reached[other].contains(module));
            found.insert(circle.map(|&name| name.to_owned()).collect());
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(texts: &[(&str, &str)]) -> Modules {
        let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
        texts.iter().map(owned).collect()
    }

    #[test]
    fn files_that_lead_to_one_another_are_a_circle_and_those_beside_it_are_not() {
        let found = circles(&modules(&[
            ("a", "use crate::b::c::{Thing, other};"),
            ("b::c", "pub(crate) fn f(x: &crate::d::X) {}"),
            ("d", "use crate::a;\nuse crate::e::E;"),
            ("e", "// crate::a\n#[cfg(test)]\nuse crate::a;"),
            ("f", "use crate::a::A;"),
        ]));
        assert_eq!(found, [["a", "b::c", "d"]]);
    }

    #[test]
    fn a_circle_that_is_not_known_and_a_known_one_that_has_gone_are_offences() {
        let mut found: Vec<_> = KNOWN
            .iter()
            .map(|(name, it)| {
                (
                    (*name).to_owned(),
                    it.iter().map(|&m| m.to_owned()).collect(),
                )
            })
            .collect();
        assert_eq!(compare(&found), [""; 0]);
        found.push(("pool-core".to_owned(), vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(compare(&found).len(), 1);
        found.clear();
        assert_eq!(compare(&found).len(), KNOWN.len());
    }
}
