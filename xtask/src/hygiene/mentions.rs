//! The rule for names that belong into several files, although no compiler compares these: a store, a policy.

use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;
use syn::Item;

use crate::workspace::Workspace;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mention {
    /// `FILE#Enum`: its variants, as `Enum::Variant`. Or `FOLDER/PREFIX*`: the ends of the names of the folders.
    of: String,
    #[serde(default)]
    except: Vec<String>,
    /// Each of these contains each of the names, in upper or lower case.
    files: Vec<String>,
}

/// Names the files that lack a name.
pub(super) fn check(workspace: &Workspace, mentions: &[Mention]) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for mention in mentions {
        let mut names = match mention.of.split_once('#') {
            Some((file, name)) => variants(&workspace.read(file)?, name)?,
            None => folders(workspace, &mention.of)?,
        };
        names.retain(|name| !mention.except.contains(name));
        for file in &mention.files {
            let text = workspace.read(file)?.to_lowercase();
            let missing = names
                .iter()
                .filter(|name| !text.contains(&name.to_lowercase()));
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
    Ok(variants
        .iter()
        .map(|it| format!("{name}::{}", it.ident))
        .collect())
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
        let names = variants(source, "Policy").expect("it is there");
        assert_eq!(names, ["Policy::A", "Policy::B"]);
        assert!(variants(source, "Gone").is_err());
    }
}
