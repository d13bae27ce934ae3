//! The packages of the crates, and their dependencies.
//!
//! Not for advisories, which need a database from the network: `cargo deny check`.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};
use xshell::cmd;

use crate::workspace::{Workspace, package};

/// The allowed licences and dependencies, also used by cargo-deny. Relative to the root.
const RULES: &str = "deny.toml";
/// The files of each package in addition to its sources.
const HELD: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Messages of cargo without network access.
const NO_REGISTRY: [&str; 3] = [
    "attempting to make an HTTP request",
    "failed to download",
    "failed to query",
];

/// The folders of the published crates, sorted.
pub(crate) fn published(workspace: &Workspace) -> Result<Vec<String>> {
    let mut crates = Vec::new();
    for folder in workspace.crates()? {
        let manifest = workspace.read(format!("crates/{folder}/Cargo.toml"))?;
        if !manifest.contains("\npublish = false") {
            crates.push(folder);
        }
    }
    Ok(crates)
}

/// The published crates except programs, on which nobody depends.
pub(crate) fn libraries(workspace: &Workspace) -> Result<Vec<String>> {
    let mut crates = published(workspace)?;
    crates.retain(|name| workspace.folder(name).join("src/lib.rs").exists());
    Ok(crates)
}

/// Packages all crates, makes all steps of a publication except the last, and compiles the crates from their packages.
/// Without a registry, skips the steps that need its index.
pub(crate) fn pack(workspace: &Workspace) -> Result<()> {
    let shell = workspace.shell()?;
    let published = published(workspace)?;
    for folder in &published {
        let name = package(folder);
        let list = cmd!(shell, "cargo package --package {name} --list --allow-dirty");
        let list = list.quiet().read()?;
        let lacks = HELD
            .iter()
            .find(|file| !list.lines().any(|it| it == **file));
        ensure!(lacks.is_none(), "the package {name} lacks {lacks:?}");
    }
    let built = workspace.target.join("packages");
    shell.remove_path(&built)?;
    // Not verified by cargo, which compiles all dependencies once more for that.
    let common = [
        OsStr::new("--allow-dirty"),
        OsStr::new("--no-verify"),
        OsStr::new("--target-dir"),
        built.as_os_str(),
    ];
    let publish = cmd!(shell, "cargo publish --dry-run --workspace {common...}");
    let output = publish.ignore_status().output()?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    eprint!("{complaints}");
    if !output.status.success() {
        let is_reached = !NO_REGISTRY.iter().any(|words| complaints.contains(words));
        ensure!(!is_reached, "the crates could not be published");
        println!("THE REGISTRY DOES NOT ANSWER: the crates are packaged, but not compared with it");
    }
    let packages = published.iter().flat_map(|folder| ["-p", package(folder)]);
    cmd!(shell, "cargo package {packages...} --offline {common...}").run()?;
    compile(workspace, &built.join("package"), &published)
}

/// Compiles the crates as they are in their `packages`, with the dependencies that other steps have compiled.
fn compile(workspace: &Workspace, packages: &Path, folders: &[String]) -> Result<()> {
    let shell = workspace.shell()?;
    let unpacked = packages.join("unpacked");
    shell.create_dir(&unpacked)?;
    shell.copy_file(workspace.root.join("Cargo.lock"), &unpacked)?;
    // With the profile of the workspace, so that its dependencies serve.
    let mut manifest =
        "workspace = { resolver = '3', members = ['*'] }\nprofile.dev.debug = false\n".to_owned();
    for folder in folders {
        let name = package(folder);
        let version = env!("CARGO_PKG_VERSION");
        let archive = packages.join(format!("{name}-{version}.crate"));
        // Touched, because cargo gives all packaged files one time, by which it would not see a change.
        let unpack = cmd!(shell, "tar --extract --touch --gzip --file {archive}");
        unpack.arg("--directory").arg(&unpacked).run()?;
        writeln!(manifest, "patch.crates-io.{name}.path = '{name}-{version}'")?;
    }
    let manifest_path = unpacked.join("Cargo.toml");
    shell.write_file(&manifest_path, manifest)?;
    let target = &workspace.target;
    let check = cmd!(shell, "cargo check --workspace --all-features --offline");
    let check = check.args([OsStr::new("--manifest-path"), manifest_path.as_os_str()]);
    Ok(check
        .args([OsStr::new("--target-dir"), target.as_os_str()])
        .run()?)
}

/// The part of [`RULES`] that can be checked without a tool.
#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

/// A crate on which only these may depend.
#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    wrappers: Vec<String>,
}

/// The part of `cargo metadata` to which the rules apply.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    /// `None`: a crate of this tree.
    source: Option<String>,
    rust_version: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `None`: an ordinary dependency.
    kind: Option<String>,
}

/// Checks the licences, sources, bans and Rust versions of all dependencies of the workspace.
pub(crate) fn check_rules(workspace: &Workspace) -> Result<()> {
    let rules: Rules = toml::from_str(&workspace.read(RULES)?).context(RULES)?;
    let shell = workspace.shell()?;
    let metadata = cmd!(shell, "cargo metadata --format-version 1 --all-features");
    let Metadata { packages } = serde_json::from_str(&metadata.quiet().read()?)?;
    let offences = offences(&rules, &packages);
    for offence in &offences {
        println!("{offence}");
    }
    let count = offences.len();
    ensure!(count == 0, "{count} offences against {RULES}");
    println!(
        "licences: {} packages, all allowed by {RULES}",
        packages.len()
    );
    Ok(())
}

fn offences(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut offences = Vec::new();
    let ours = packages.iter().filter(|it| it.source.is_none());
    let promised = ours
        .filter_map(|it| minor(it.rust_version.as_deref()?))
        .min();
    for package in packages {
        let mut offend = |what: String| offences.push(format!("{}: {what}", package.name));
        let license = package.license.as_deref().unwrap_or("none");
        if !is_allowed(license, &rules.licenses.allow) {
            offend(format!("its licence is not allowed: {license}"));
        }
        let source = package.source.as_deref();
        if source.is_some_and(|source| !source.starts_with("registry+")) {
            offend("it is not from a registry".to_owned());
        }
        let version = package.rust_version.as_deref().unwrap_or_default();
        if minor(version) > promised {
            offend(format!(
                "it needs Rust {version}, newer than the workspace's"
            ));
        }
        // The dependencies of other people's crates are not restricted.
        let restricted = package.dependencies.iter().filter(|_| source.is_none());
        for to in restricted.filter(|to| to.kind.as_deref() != Some("dev")) {
            let mut bans = rules.bans.deny.iter();
            if bans.any(|ban| ban.name == to.name && !ban.wrappers.contains(&package.name)) {
                offend(format!("it may not depend on {}", to.name));
            }
        }
    }
    offences
}

/// The `88` of `1.88.0`.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

fn is_allowed(license: &str, allowed: &[String]) -> bool {
    let is_listed = |req: &LicenseReq| {
        let id = req.license.id();
        id.is_some_and(|id| allowed.iter().any(|name| *name == id.name))
    };
    let parsed = Expression::parse_mode(license, ParseMode::LAX);
    parsed.is_ok_and(|expression| expression.evaluate(is_listed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn any_licence_of_an_or_and_every_licence_of_an_and_is_needed() {
        let allowed = ["MIT", "Apache-2.0"].map(str::to_owned);
        for (license, expected) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only OR MIT", true),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
            ("MIT AND Unicode-3.0", false),
            ("GPL-3.0-only", false),
            ("none", false),
        ] {
            assert_eq!(is_allowed(license, &allowed), expected, "{license}");
        }
    }

    #[test]
    fn banned_dependencies_unknown_sources_and_newer_compilers_are_offences() {
        let rules =
            "licenses.allow = ['MIT']\nbans.deny = [{ crate = 'loom', wrappers = ['shim'] }]";
        let rules: Rules = toml::from_str(rules).expect("well-formed");
        let of = |name: &str, source: Option<&str>, kind: Option<&str>, rust: &str| -> Package {
            let package = json!({
                "name": name, "license": "MIT", "source": source, "rust_version": rust,
                "dependencies": [{ "name": "loom", "kind": kind }],
            });
            serde_json::from_value(package).expect("well-formed")
        };
        let ours = || of("shim", None, None, "1.88");
        let theirs = |source, rust| offences(&rules, &[ours(), of("it", Some(source), None, rust)]);
        let alone = |name, kind| offences(&rules, &[of(name, None, kind, "1.88")]);
        assert_eq!(alone("pool", None), ["pool: it may not depend on loom"]);
        assert_eq!(alone("pool", Some("build")).len(), 1);
        assert_eq!(alone("pool", Some("dev")), [""; 0]);
        assert_eq!(alone("shim", None), [""; 0]);
        assert_eq!(theirs("registry+x", "1.88.0"), [""; 0]);
        assert_eq!(theirs("registry+x", "1.9"), [""; 0]);
        assert_eq!(theirs("git+x", "1.88"), ["it: it is not from a registry"]);
        let newer = ["it: it needs Rust 1.89, newer than the workspace's"];
        assert_eq!(theirs("registry+x", "1.89"), newer);
    }
}
