//! The rule for `cargo xtask test` without `--all`: it compiles no C code and no database client.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;
use xshell::cmd;

use crate::test;
use crate::workspace::Workspace;

/// Packages that compile or find C code, and clients of databases.
const HEAVY: [&str; 11] = [
    "bindgen",
    "cc",
    "cmake",
    "pkg-config",
    "postgres",
    "redis",
    "rusqlite",
    "sqlx",
    "sqlx-core",
    "tokio-postgres",
    "vcpkg",
];

/// Returns the packages of the default tests that need a C library or compiler.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let shell = workspace.shell()?;
    let light = test::light(workspace)?;
    let tree = ["--edges=all", "--prefix=none", "--format={p}"];
    let tree = cmd!(shell, "cargo tree {tree...} {light...}");
    let tree = tree.quiet().read()?;
    let metadata = cmd!(shell, "cargo metadata --format-version 1");
    let metadata: Value = serde_json::from_str(&metadata.quiet().read()?)?;
    let packages = metadata["packages"].as_array();
    let links = packages.context("cargo lists no packages")?.iter();
    let links = links.filter(|it| !it["links"].is_null());
    let links: BTreeSet<_> = links.filter_map(|it| it["name"].as_str()).collect();
    let heavy = heavy(&tree, &links).into_iter();
    Ok(heavy
        .map(|name| format!("`cargo xtask test` builds {name}, which is for `--all` only"))
        .collect())
}

/// The packages in cargo's `tree` that link a library of the system, or are known as heavy.
fn heavy<'t>(tree: &'t str, links: &BTreeSet<&str>) -> BTreeSet<&'t str> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| links.contains(name) || HEAVY.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_a_system_library_and_database_clients_are_heavy() {
        let tree = "a v0.1.0 (/x/a)\nlibz-sys v1.1.0\nlibz-sys v1.1.0 (*)\nrusqlite v0.32.1\nredis-like v1.0.0\n";
        let links = ["libz-sys", "openssl-sys"].into();
        let found: Vec<_> = heavy(tree, &links).into_iter().collect();
        assert_eq!(found, ["libz-sys", "rusqlite"]);
    }
}
