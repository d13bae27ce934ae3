//! The search of the documentation finds names of other libraries.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it is a folder");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                sources(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// The names in backticks in the first column of the table, in the rows that have an equivalent
/// here.
fn names_of_ants(guide: &str) -> Vec<&str> {
    let rows = guide.lines().filter_map(|line| line.strip_prefix("//! | "));
    let rows = rows.filter(|row| !row.contains("rejected by the compiler"));
    let cells = rows.filter_map(|row| row.split('|').next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|name| name.trim_start_matches("ants."))
        .map(|name| {
            name.split(|end: char| !end.is_alphanumeric())
                .next()
                .unwrap_or_default()
        })
        .filter(|name| name.starts_with(char::is_uppercase))
        .collect()
}

#[test]
fn the_names_of_ants_are_search_aliases() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["anthill", "multi-pool", "pool-core"].map(|name| crates.join(name).join("src"));
    let files = folders.iter().flat_map(|folder| sources(folder));
    let text: String = files
        .map(|file| fs::read_to_string(file).expect("it is text"))
        .collect();
    let guide = include_str!("../../src/guide/from_ants.rs");
    let names = names_of_ants(guide);
    assert!(names.len() > 30, "the table is read: {names:?}");
    let is_found = |name: &&str| {
        text.contains(&format!("doc(alias = \"{name}\")"))
            || text.contains(&format!("pub struct {name}"))
    };
    let missing: Vec<_> = names.into_iter().filter(|name| !is_found(name)).collect();
    assert_eq!(missing, [""; 0]);
}
