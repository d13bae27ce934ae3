//! The rule for public names: each item at the root of a crate occurs in the crate's README or in
//! the guide.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::packages;
use crate::workspace::Workspace;

const GUIDE: &str = "crates/anthill/src/guide";
/// For use by the other crates only.
const HIDDEN: &str = "internals";

/// Returns the offences.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut guide = String::new();
    for path in workspace.files(GUIDE)? {
        guide.push_str(&workspace.read(path)?);
    }
    let mut offences = Vec::new();
    for name in packages::libraries(workspace)? {
        let Ok(list) = workspace.read(format!("docs/api/{name}.txt")) else {
            offences.push(format!(
                "docs/api lacks {name}.txt: `cargo xtask api --update`"
            ));
            continue;
        };
        let readme = workspace.read(format!("crates/{name}/README.md"))?;
        let text = readme + &guide;
        let known = words(&text);
        let missing: Vec<_> = root_names(&name, &list)
            .difference(&known)
            .copied()
            .collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            offences.push(format!(
                "{name}: neither README nor guide mention {missing}"
            ));
        }
    }
    Ok(offences)
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split(|it: char| !it.is_alphanumeric() && it != '_')
        .collect()
}

/// The items of a list in docs/api whose path is `crate::name`.
fn root_names<'l>(name: &str, list: &'l str) -> BTreeSet<&'l str> {
    let own = format!("{}::", name.replace('-', "_"));
    let items = list
        .lines()
        .filter(|line| line.starts_with("pub ") || line.starts_with("#["));
    let names = items.filter_map(|line| {
        let path = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix(&*own))?;
        let end = path
            .find(|it: char| !it.is_alphanumeric() && it != '_')
            .unwrap_or(path.len());
        let is_root = !path[end..].starts_with("::") && !path[end..].contains(">::");
        (is_root && &path[..end] != HIDDEN).then_some(&path[..end])
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_names_are_items_of_the_crate_itself() {
        let list = "pub mod a_b\npub fn a_b::free(a_b::Other)\npub struct a_b::Thing<T>\npub fn a_b::Thing<T>::call()\n\
                    pub enum a_b::part::Inner\npub a_b::Thing::field: u8\npub mod a_b::internals\nimpl a_b::No for u8\n";
        let names: Vec<_> = root_names("a-b", list).into_iter().collect();
        assert_eq!(names, ["Thing", "free"]);
    }
}
