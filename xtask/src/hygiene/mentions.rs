//! The rule for names that must occur in several files which no compiler compares, such as stores
//! and policies.

use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;
use syn::Item;

use crate::workspace::Workspace;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mention {
    /// `FILE#Enum` stands for its variants, as `Enum::Variant`. `FOLDER/PREFIX*` stands for the
    /// rest of the folders' names.
    of: String,
    #[serde(default)]
    except: Vec<String>,
    /// Files that must contain each of the names, in any case.
    files: Vec<String>,
    /// A text that occurs in the tests of each folder.
    in_tests: Option<String>,
}

/// Returns the files that lack a name.
pub(super) fn check(workspace: &Workspace, mentions: &[Mention]) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for mention in mentions {
        let mut names = match mention.of.split_once('#') {
            Some((file, name)) => variants(&workspace.read(file)?, name)?,
            None => folders(workspace, &mention.of)?,
        };
        names.retain(|name| !mention.except.contains(name));
        for (name, text) in names.iter().zip(mention.in_tests.iter().cycle()) {
            let tests = mention.of.replace('*', name) + "/tests";
            let files = workspace.texts(&tests, ".rs")?;
            if !files.iter().any(|(_, it)| it.contains(text)) {
                offences.push(format!("{tests}: no `{text}`"));
            }
        }
        for file in &mention.files {
            let text = workspace.read(file)?.to_lowercase();
            let missing = names.iter().filter(|it| !text.contains(&it.to_lowercase()));
            offences.extend(missing.map(|name| format!("{file}: does not mention {name}")));
        }
    }
    Ok(offences)
}

fn variants(source: &str, name: &str) -> Result<Vec<String>> {
    let items = syn::parse_file(source)?.items;
    let variants = items.into_iter().find_map(|item| match item {
        Item::Enum(it) if it.ident == name => Some(it.variants),
        _ => None,
    });
    let variants = variants.with_context(|| format!("there is no enum {name}"))?;
    let names = variants.iter().map(|it| format!("{name}::{}", it.ident));
    Ok(names.collect())
}

fn folders(workspace: &Workspace, pattern: &str) -> Result<Vec<String>> {
    let (folder, prefix) = pattern.rsplit_once('/').context("a folder has a path")?;
    let prefix = prefix.trim_end_matches('*');
    let mut names = Vec::new();
    for entry in fs::read_dir(workspace.root.join(folder))? {
        let name = entry?.file_name();
        let end = name.to_str().and_then(|name| name.strip_prefix(prefix));
        names.extend(end.map(str::to_owned));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variants_of_an_enum_are_named_by_it() {
        let source = "enum Other { C }\npub enum Policy { A, B(u8) }\n";
        let names = variants(source, "Policy").expect("the enum exists");
        assert_eq!(names, ["Policy::A", "Policy::B"]);
        assert!(variants(source, "Gone").is_err());
    }
}
