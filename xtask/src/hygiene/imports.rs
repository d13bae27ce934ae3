//! The modules that a source file names, found by a parser.
//!
//! Paths in `use` items, in code and in the arguments of macros are resolved: `crate::`, `self::`,
//! `super::`, and names that a `use` of the file has imported. Tests are left out, and so are a
//! module's own children, which `a.rs` declares and `a/b.rs` extends, as the root does all modules.
//! Reexports are not followed: a path to an item that the root reexports names no module.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree};

use super::circles::Modules;

type Path = Vec<String>;

/// Returns the modules that the text of `module` names.
pub(super) fn imports(module: &str, modules: &Modules) -> Result<BTreeSet<String>> {
    let file = syn::parse_file(&modules[module]).context(module.to_owned())?;
    let mut found = Found {
        here: module.split("::").map(str::to_owned).collect(),
        modules,
        imported: BTreeMap::new(),
        paths: Vec::new(),
    };
    found.visit_file(&file);
    let targets = found.paths.iter().filter_map(|path| found.target(path));
    let mut targets: BTreeSet<_> = targets.collect();
    let children = format!("{module}::");
    targets.retain(|it| it != module && !it.starts_with(&children));
    Ok(targets)
}

struct Found<'m> {
    /// The module around the visited item.
    here: Path,
    modules: &'m Modules,
    /// The paths of imported names, relative to the root.
    imported: BTreeMap<String, Path>,
    /// Paths with the modules around them.
    paths: Vec<(Path, Path)>,
}

impl Found<'_> {
    fn add(&mut self, path: Path) {
        self.paths.push((self.here.clone(), path));
    }

    /// Adds the paths of a tree of imports below `prefix`, and the names that they import.
    fn add_tree(&mut self, tree: &UseTree, mut prefix: Path) {
        let name = match tree {
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(tree, prefix.clone());
                }
                return;
            }
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                return self.add_tree(&path.tree, prefix);
            }
            UseTree::Glob(_) => return self.add(prefix),
            UseTree::Name(name) => {
                prefix.push(name.ident.to_string());
                &name.ident
            }
            UseTree::Rename(name) => {
                prefix.push(name.ident.to_string());
                &name.rename
            }
        };
        if prefix.last().is_some_and(|it| it == "self") {
            prefix.pop();
        }
        let name = match (name.to_string(), prefix.last()) {
            (name, Some(last)) if name == "self" => last.clone(),
            (name, _) => name,
        };
        if let Some(path) = absolute(&self.here, &prefix) {
            self.imported.insert(name, path);
        }
        self.add(prefix);
    }

    /// The longest module that is a prefix of a path.
    fn target(&self, (here, path): &(Path, Path)) -> Option<String> {
        let path = absolute(here, path).or_else(|| {
            let (first, rest) = path.split_first()?;
            Some([self.imported.get(first)?, rest].concat())
        })?;
        let lengths = (1..=path.len()).rev();
        let mut names = lengths.map(|length| path[..length].join("::"));
        names.find(|name| self.modules.contains_key(name))
    }
}

/// The path relative to the root, if it says where it begins.
fn absolute(here: &[String], path: &[String]) -> Option<Path> {
    let (first, mut rest) = path.split_first()?;
    let mut start = match first.as_str() {
        "crate" => return Some(rest.to_vec()),
        "self" => here.to_vec(),
        "super" => here.split_last()?.1.to_vec(),
        _ => return None,
    };
    while rest.first().is_some_and(|it| it == "super") {
        start.pop()?;
        rest = &rest[1..];
    }
    start.extend_from_slice(rest);
    Some(start)
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(it) => &it.attrs,
            Item::Impl(it) => &it.attrs,
            Item::Mod(it) => &it.attrs,
            Item::Use(it) => &it.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.here.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.here.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&item.tree, Path::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let parts = path.segments.iter().map(|it| it.ident.to_string());
            self.add(parts.collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        let text = item.tokens.to_string().replace(" :: ", "::");
        let is_part = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
        for path in text.split(|it| !is_part(it)) {
            let parts: Path = path.split("::").map(str::to_owned).collect();
            if parts.len() > 1 {
                self.add(parts);
            }
        }
    }

    // Documentation and conditions.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn is_for_tests(attribute: &Attribute) -> bool {
    let is_test = attribute.path().is_ident("test");
    let Ok(list) = attribute.meta.require_list() else {
        return is_test;
    };
    let text = list.tokens.to_string().replace(' ', "");
    let mut words = text.split(|it: char| !it.is_alphanumeric() && it != '_');
    let of_tests = words.any(|it| it == "test") && !text.contains("not(test");
    is_test || list.path.is_ident("cfg") && of_tests
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULES: [&str; 6] = ["a", "a::b", "a::c", "d", "d::e", "f"];

    /// The modules that the module `a::b` names in this text.
    fn named(text: &str) -> String {
        let modules = MODULES.map(|name| {
            let text = if name == "a::b" { text } else { "" };
            (name.to_owned(), text.to_owned())
        });
        let found = imports("a::b", &modules.into()).expect("it is parsed");
        found.into_iter().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn trees_of_imports_are_resolved() {
        for (text, expected) in [
            ("use crate::d::e::Thing;", "d::e"),
            ("use super::c::Thing;", "a::c"),
            ("use super::Thing;", "a"),
            ("use super::super::d::Thing;", "d"),
            (
                "use crate::{a::{self, c::X}, d::{e::{Y, Z}, W}};",
                "a a::c d d::e",
            ),
            ("use super::{c::*, super::f};", "a::c f"),
            ("use self::inner::X; mod inner { pub struct X; }", ""),
            (
                "mod inner { use super::super::c::X; use super::Y; }",
                "a::c",
            ),
            ("use std::fmt; use other::d::X;", ""),
            ("use crate::Root;", ""),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn paths_in_code_are_resolved() {
        for (text, expected) in [
            ("fn g() { crate::d::h(); }", "d"),
            ("fn g(x: super::c::X<crate::f::Y>) {}", "a::c f"),
            ("impl super::c::X for crate::f::Y {}", "a::c f"),
            (
                "fn g() { assert!(crate::d::e::h(), \"{}\", super::c::I); }",
                "a::c d::e",
            ),
            ("use crate::d; fn g() { d::e::h() }", "d d::e"),
            ("use crate::d as x; fn g() { x::e::h() }", "d d::e"),
            ("use crate::d::{self}; type E = d::e::E;", "d d::e"),
            ("fn g() { f::h(); d::e::h(); }", ""),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn a_module_does_not_name_its_children() {
        let texts = [
            ("d", "mod e; use self::e::E; use crate::f;"),
            ("d::e", "use super::X;"),
            ("f", ""),
        ];
        let modules = texts
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        let found = |module| imports(module, &modules).expect("it is parsed");
        assert_eq!(found("d"), ["f".to_owned()].into());
        assert_eq!(found("d::e"), ["d".to_owned()].into());
    }

    #[test]
    fn tests_and_comments_name_nothing() {
        for text in [
            "// crate::d\n/// [`X`](crate::d::X)\nfn g() {}",
            "#[cfg(test)] mod tests { use crate::d::X; }",
            "#[cfg(all(test, not(anthill_loom)))] mod tests { use crate::d::X; }",
            "#[cfg(test)] use crate::d::X;",
            "#[cfg(test)] fn g() { crate::d::h() }",
        ] {
            assert_eq!(named(text), "", "{text}");
        }
        assert_eq!(named("#[cfg(not(test))] use crate::d::X;"), "d");
    }
}
