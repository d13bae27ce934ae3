//! The rule for public names: each item at the root of a crate occurs in the crate's README or in
//! the guide.

use std::collections::BTreeSet;

use anyhow::Result;

use super::is_word;
use crate::packages;
use crate::workspace::Workspace;

const GUIDE: &str = "crates/anthill/src/guide";
/// For use by the other crates only.
const HIDDEN: &str = "internals";

/// Returns the offences.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut guide = String::new();
    for (_, text) in workspace.texts(GUIDE, "")? {
        guide.push_str(&text);
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
        let known: BTreeSet<_> = text.split(|it| !is_word(it)).collect();
        let missing = &root_names(&name, &list) - &known;
        offences.extend(
            missing
                .iter()
                .map(|it| format!("{name}: neither README nor guide mention {it}")),
        );
    }
    Ok(offences)
}

/// The items of a list in docs/api whose path is `crate::name`.
fn root_names<'l>(name: &str, list: &'l str) -> BTreeSet<&'l str> {
    let own = format!("{}::", name.replace('-', "_"));
    let is_item = |line: &&str| line.starts_with("pub ") || line.starts_with("#[");
    let names = list.lines().filter(is_item).filter_map(|line| {
        let mut words = line.split_whitespace();
        let path = words.find_map(|word| word.strip_prefix(&*own))?;
        let end = path.find(|it| !is_word(it)).unwrap_or(path.len());
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
